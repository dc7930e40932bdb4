// Keeps the page up to date: fetches it again every second, and changes in the document what has changed. Without a script the
// page is the same, and is loaded anew by the browser.
"use strict";

const EVERY = 1000;
const state = document.getElementById("state");
const tip = document.getElementById("tip");

// Makes `old` what `fresh` is, and leaves alone what is so already: what is selected stays selected.
function patch(old, fresh) {
  if (old.nodeName !== fresh.nodeName || (old.id || "") !== (fresh.id || "")) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const [before, after] = [Array.from(old.childNodes), Array.from(fresh.childNodes)];
  after.forEach((node, at) => {
    if (before[at]) patch(before[at], node);
    else old.append(document.importNode(node, true));
  });
  before.slice(after.length).forEach((node) => node.remove());
}

function say(text, how) {
  state.textContent = text;
  state.className = how;
}

async function refresh() {
  const patience = AbortSignal.timeout ? { signal: AbortSignal.timeout(10 * EVERY) } : {};
  const response = await fetch("./", { cache: "no-store", ...patience });
  if (!response.ok) throw new Error(`${response.status} ${(await response.text()).trim()}`);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  patch(document.querySelector("main"), fresh.querySelector("main"));
}

let since = null;
async function turn() {
  if (!document.hidden) {
    try {
      await refresh();
      since = null;
      say("live", "live");
    } catch (error) {
      since = since || new Date();
      say(`no response since ${since.toLocaleTimeString()}; trying again`, "lost");
    }
  }
  setTimeout(turn, EVERY);
}
turn();

// What the curves were at the second under the pointer.
function tell(event) {
  const chart = event.target.closest && event.target.closest("svg.chart");
  tip.hidden = !chart;
  if (!chart) return;
  const box = chart.getBoundingClientRect();
  const slots = chart.querySelector("svg").viewBox.baseVal.width;
  const ago = Math.round(slots * (1 - (event.clientX - box.left) / box.width));
  const lines = Array.from(chart.parentNode.querySelectorAll(".key"), (key) => {
    const values = key.dataset.values.split("|");
    return `${key.firstChild.data.trim()}: ${values[values.length - 1 - Math.max(ago - 1, 0)] || "–"}`;
  });
  tip.textContent = `${ago} s ago · ${lines.join(" · ")}`;
  const left = Math.min(event.clientX + 12, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(left, 8) + window.scrollX}px`;
  tip.style.top = `${box.top + window.scrollY - tip.offsetHeight - 4}px`;
}
document.addEventListener("pointermove", tell);
document.addEventListener("pointerdown", tell);
