import pytest

from data_scripts.__main__ import main


@pytest.mark.parametrize(
    "words",
    [
        "conversations s3://bucket/chat.csv -o {folder}",
        "inspect s3://bucket/chat.csv",
        "leakage s3://bucket/pairs --near_duplicates",
        "leakage {folder} --against mine=s3://bucket/questions",
        "captions s3://bucket/images -o {folder}/out",
        "captions gs://bucket/images -o {folder}/out",
        "nli {folder} -o s3://bucket/out",
        "sts {folder} -o s3://bucket/out",
        "tokenizer s3://bucket/pairs -o {folder}/out",
        "books s3://bucket/books -o {folder}/out",
        "download snli -o s3://bucket/data",
    ],
)
def test_a_url_where_only_paths_are_read_is_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train-00000-of-00001.parquet").write_bytes(b"")
    try:
        code = main(words.format(folder=tmp_path).split())
    except SystemExit as ended:
        code = ended.code
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and ": a URL, expected a path; only the dumps" in error
    assert [path.name for path in tmp_path.iterdir()] == ["train-00000-of-00001.parquet"]
