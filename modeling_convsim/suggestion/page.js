// Copies the reply of the button's card. Browsers offer `navigator.clipboard` only at https:// and localhost.
async function copy(button) {
  const text = JSON.parse(button.closest("li").dataset.rating).reply;
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
}

// Stores a rating of the card's reply. In the review, updates the summary and, at the end, shows the real reply.
async function rate(button) {
  const card = button.closest("li"), status = card.querySelector("[role=status]"), review = card.closest("#review");
  try {
    const body = JSON.stringify({...JSON.parse(card.dataset.rating), rating: button.value});
    const response = await fetch("feedback", {method: "POST", headers: {"Content-Type": "application/json"}, body});
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    card.querySelectorAll(".rate").forEach(each => each.setAttribute("aria-pressed", each === button));
    status.textContent = `Stored: ${button.textContent}`;
    if (!review) return;
    review.querySelector(".known").textContent = answer.known;
    if ([...review.querySelectorAll("li")].every(each => each.querySelector("[aria-pressed=true]"))) reveal(review);
  } catch (error) { status.textContent = `Not stored: ${error.message}`; }
}

function reveal(review) {
  review.querySelector(".real").hidden = false;
  review.querySelector(".reveal").setAttribute("aria-expanded", true);
}

let rated = Promise.resolve();  // ratings are stored in the order of the clicks, because the last one counts
document.addEventListener("click", event => {
  const button = event.target.closest("button.copy, button.rate, button.reveal");
  if (button?.matches(".copy")) copy(button);
  if (button?.matches(".rate")) rated = rated.then(() => rate(button));
  if (button?.matches(".reveal")) reveal(button.closest("#review"));
});

// Runs before each request of Gradio and passes its inputs on: closes the errors of the previous request.
window.closeErrors = (...inputs) => {
  document.querySelectorAll("button.toast-close").forEach(button => button.click());
  return inputs;
};
