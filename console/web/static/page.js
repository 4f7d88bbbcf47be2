// The page works without this: it reads itself again while somebody looks, and copies commands.
"use strict";

const busy = () => document.hidden || document.activeElement?.matches("input, select, textarea")
  || document.querySelector("[data-all]:checked, [name=ids]:checked") || getSelection()?.type === "Range";

async function again(main) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || busy()) return;
  const read = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = read.querySelector("main");
  if (!fresh) return;
  const open = [...main.querySelectorAll("details")].map((each) => each.open);
  const focused = [...main.querySelectorAll("a, button, summary, pre")].indexOf(document.activeElement);
  main.replaceChildren(...fresh.childNodes);
  main.dataset.every = fresh.dataset.every ?? "";
  main.querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? false; });
  main.querySelectorAll("a, button, summary, pre")[focused]?.focus();
}

function wait() {
  const main = document.querySelector("main");
  const seconds = Number(main.dataset.every);
  if (!seconds) return;
  setTimeout(async () => {
    try { if (!busy()) await again(main); } catch { /* The next time tries again. */ }
    wait();
  }, seconds * 1000);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.previousElementSibling.textContent);
  button.textContent = "Copied";
});

document.addEventListener("change", (event) => {
  if (!event.target.matches?.("[data-all]")) return;
  document.querySelectorAll("[name=ids]").forEach((each) => { each.checked = event.target.checked; });
});

wait();
