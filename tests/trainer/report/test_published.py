"""The published figures against the papers' texts, row by row, and their shape."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainer.report
from data_scripts.public.sts import STS_SETS

FILE = Path(trainer.report.__file__).with_name("published.yaml")
YEARS = ("2012", "2013", "2014", "2015")


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def texts(data_dir: Path) -> dict[str, str]:
    """Start of a file's name -> the paper's text without bold, white space folded, where the papers lie by the data."""
    folder = data_dir.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"the papers' texts are not at {folder}")
    bold = re.compile("</?b>")
    return {path.name[:3]: " ".join(bold.sub("", path.read_text("utf-8")).split()) for path in folder.glob("*.txt")}


def yang_rows(tables: dict[str, Any]) -> dict[str, list[str]]:
    """The rows of tables 1 to 4 and 6 as the paper prints them, by table."""

    def printed(rows: dict[str, list[float]], decimals: int) -> list[str]:
        return [" ".join([name, *(f"{value:.{decimals}f}" for value in values)]) for name, values in rows.items()]

    return {
        "table1": printed(tables["table1"]["rows"], 1),
        "table2": printed(tables["table2"]["rows"], 1),
        "table3": [row for part in ("rows", "neural", "mixed") for row in printed(tables["table3"][part], 3)],
        "table4": printed(
            {name: [*row["dev"], *row["test"]] for name, row in tables["table4"]["rows"].items()}, 3
        ),
        "table6": printed(tables["table6"]["rows"], 2),
    }  # fmt: skip


def test_yang_tables_are_the_published_rows_in_their_order(published: dict[str, Any], texts: dict[str, str]) -> None:
    tables = yang_rows(published["yang2018"])
    assert [len(rows) for rows in tables.values()] == [2, 4, 12, 4, 5]
    text = (
        texts["003"].replace("Neural representation models ", "").replace("Feature engineered and mixed systems ", "")
    )
    for rows in tables.values():
        assert " ".join(rows) in text


def test_yang_examples_and_statements_are_the_papers(published: dict[str, Any], texts: dict[str, str]) -> None:
    yang, text = published["yang2018"], texts["003"]
    rows = yang["table5"]["rows"]
    assert len(rows) == 4
    for row in rows:
        printed = (
            f"{row['judgment']} {row['score']:.2f} {row['label']:.1f} S1: {row['sentence1']} S2: {row['sentence2']}"
        )
        assert printed in text and printed in texts["002"]
    assert f"reaches around {yang['figure8']['captions_at_10']}" in text.replace("$", "")
    assert f"after using {yang['figure8']['flat_from']}%" in text


def kenter_row(name: str, row: dict[str, Any], decimals: tuple[int, ...]) -> str:
    """As the paper prints it: `.3419 (.3521) … .4379† (.4311)`."""
    cells = [
        f"{pearson:.{places}f} ({spearman:.{places}f})".replace("0.", ".")
        for pearson, spearman, places in zip(row["pearson"], row["spearman"], decimals, strict=True)
    ]
    if row.get("dagger"):
        cells[-1] = cells[-1].replace(" (", "† (")
    return " ".join([name, *cells])


def test_kenter_table_1_is_complete(published: dict[str, Any], texts: dict[str, str]) -> None:
    words = []
    for year, sets in published["kenter2016"]["table1"]["sets"].items():
        words += [year, *(kenter_row(name, row, (4, 4, 4, 4)) for name, row in sets.items())]
    names = " ".join(published["kenter2016"]["table1"]["system_names"])
    assert " ".join(["Dataset", names, *words, "the mean of"]) in texts["004"]


def test_kenter_tables_2_and_3_are_complete(published: dict[str, Any], texts: dict[str, str]) -> None:
    kenter, text = published["kenter2016"], texts["004"]
    rows = [kenter_row(name, row, (2, 4)) for name, row in kenter["table2"]["sets"]["2014"].items()]
    assert " ".join(["Dataset", *kenter["table2"]["system_names"], *rows]) in text
    for name, (all_sets, one_pair) in kenter["table3"]["rows"].items():
        assert f"{name} {all_sets:,} {one_pair}" in text
    assert f"{kenter['table3']['pairs']:,} sentence pairs" in text


def test_kenter_statements_and_words_are_the_papers(published: dict[str, Any], texts: dict[str, str]) -> None:
    kenter, text = published["kenter2016"], texts["004"]
    words = kenter["words"]
    for tens in (words["smallest_norms"], words["largest_norms"]):
        assert len(set(tens)) == 10
    *smallest, last = words["smallest_norms"]
    assert f"{', '.join(smallest)}, and {last}. At" in text
    assert f"pronouns: {', '.join(words['largest_norms'])}, which" in text


def test_datasets_of_siamese_cbow_have_our_names(published: dict[str, Any]) -> None:
    kenter = published["kenter2016"]
    sets = kenter["table1"]["sets"]
    assert {year: set(names) for year, names in sets.items()} == {year: set(STS_SETS[year]) for year in YEARS}
    assert sum(map(len, sets.values())) == 20
    assert set(kenter["table2"]["sets"]["2014"]) == set(STS_SETS["2014"])
