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
});

// Runs before a request of Gradio, which it passes its inputs on to: errors of the previous one disappear.
window.closeErrors = (...inputs) => {
  document.querySelectorAll("button.toast-close").forEach(button => button.click());
  return inputs;
};
