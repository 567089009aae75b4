// Copies the reply of the button's card. Browsers offer `navigator.clipboard` only at https:// and localhost.
document.addEventListener("click", async event => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const text = button.closest("li").querySelector(".text").textContent;
  let isCopied = true;
  try { await navigator.clipboard.writeText(text); }
  catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    isCopied = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = isCopied ? "Copied" : "Not copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
  if (isCopied && button.closest(".rated")) rate(button, true);
});

// Records that the reply of the button's card was accepted or rejected, with the page's own API.
const rate = async (button, accepted) => {
  const card = button.closest("li"), {message, context} = button.closest("ol").dataset;
  const url = `${window.gradio_config.root}${window.gradio_config.api_prefix}/call/feedback`;
  const data = [message, card.querySelector(".text").textContent, accepted, JSON.parse(context)];
  let isWritten = false;
  try {
    const headers = {"Content-Type": "application/json"};
    const call = await fetch(url, {method: "POST", headers, body: JSON.stringify({data})});
    const answer = await fetch(`${url}/${(await call.json()).event_id}`);
    isWritten = (await answer.text()).includes("event: complete");
  } catch {}
  for (const thumb of card.querySelectorAll(".thumb"))
    thumb.setAttribute("aria-pressed", isWritten && thumb.dataset.accepted === String(accepted));
};
document.addEventListener("click", event => {
  const thumb = event.target.closest("button.thumb");
  if (thumb) rate(thumb, thumb.dataset.accepted === "true");
});

// Runs before a request of Gradio, which it passes its inputs on to: errors of the previous one disappear.
window.closeErrors = (...inputs) => {
  document.querySelectorAll("button.toast-close").forEach(button => button.click());
  return inputs;
};
