// Rates the candidates of one query after the other; marks are kept in the browser and saved as a file.
(() => {
  "use strict";
  const asked = JSON.parse(document.getElementById("asked").textContent);
  const SIGNS = { "relevant": "✓", "not relevant": "✗", "cannot tell": "?" };
  const KEY = `oasis-bench ratings ${asked.data}`;
  const pairs = asked.questions.flatMap(([query, all]) => all.map((candidate) => [query, candidate]));
  const find = (id) => document.getElementById(id);
  const nameOf = ([query, candidate]) => `${query} ${candidate}`;

  // ---- what is kept -------------------------------------------------------------------------

  const newId = () =>
    [...crypto.getRandomValues(new Uint8Array(8))].map((it) => it.toString(16).padStart(2, "0")).join("");

  /** Return what an earlier visit kept; anything that is not of this page's making is left out. */
  const earlier = () => {
    const state = { id: newId(), rater: "", marks: {} };
    try {
      const kept = JSON.parse(localStorage.getItem(KEY)) ?? {};
      if (/^[0-9a-f]{16}$/.test(kept.id)) state.id = kept.id;
      if (typeof kept.rater === "string") state.rater = kept.rater.slice(0, 80);
      for (const [name, mark] of Object.entries(kept.marks ?? {})) {
        if (asked.marks.includes(mark)) state.marks[name] = mark;
      }
    } catch { /* none is kept, or it cannot be read: `keep` says where none can be */ }
    return state;
  };

  let state = earlier();
  const keep = () => {
    try {
      localStorage.setItem(KEY, JSON.stringify(state));
      find("unkept").hidden = true;
    } catch {
      find("unkept").hidden = false;
    }
  };

  // ---- what is shown ------------------------------------------------------------------------

  let place = 0; // of the current pair among all
  const grid = document.querySelector(".candidates");
  const markButtons = [...document.querySelectorAll(".bar [data-mark]")];
  const starts = []; // of each query among the pairs
  asked.questions.reduce((start, [, all]) => (starts.push(start), start + all.length), 0);
  const queryOf = (of) => starts.findLastIndex((start) => start <= of);

  const show = () => {
    const number = queryOf(place);
    const [query, candidates] = asked.questions[number];
    find("query").src = asked.pictures[query];
    if (grid.dataset.number !== String(number)) {
      grid.dataset.number = number;
      grid.replaceChildren(...candidates.map((candidate, index) => {
        const button = document.createElement("button");
        const image = Object.assign(document.createElement("img"), { alt: "", src: asked.pictures[candidate] });
        const sign = Object.assign(document.createElement("span"), { className: "sign", ariaHidden: "true" });
        button.type = "button";
        button.append(image, sign);
        button.addEventListener("click", () => go(starts[number] + index));
        return button;
      }));
    }
    [...grid.children].forEach((button, index) => {
      const mark = state.marks[nameOf([query, candidates[index]])];
      button.dataset.mark = mark ?? "";
      button.querySelector(".sign").textContent = SIGNS[mark] ?? "";
      button.ariaLabel = `Candidate ${index + 1} of ${candidates.length}: ${mark ?? "not rated"}`;
      button.ariaCurrent = starts[number] + index === place ? "true" : null;
    });
    const now = state.marks[nameOf(pairs[place])];
    markButtons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.mark === now));
    const done = pairs.filter((pair) => nameOf(pair) in state.marks).length;
    find("place").textContent = `Query ${number + 1} of ${asked.questions.length}. ${done} of ${pairs.length} rated.`
      + (done === pairs.length ? " That is all: save the file and send it to the person who asked you." : "");
  };

  const go = (to) => {
    place = Math.max(0, Math.min(pairs.length - 1, to));
    show();
    grid.children[place - starts[queryOf(place)]].focus();
  };

  const rate = (mark) => {
    state.marks[nameOf(pairs[place])] = mark;
    keep();
    go(place + 1);
  };

  markButtons.forEach((button) => button.addEventListener("click", () => rate(button.dataset.mark)));
  find("previous").addEventListener("click", () => go(starts[Math.max(0, queryOf(place) - 1)]));
  find("next").addEventListener("click", () => go(starts[Math.min(starts.length - 1, queryOf(place) + 1)]));
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.altKey || event.metaKey) return;
    const mark = asked.marks[["1", "2", "3"].indexOf(event.key)];
    if (mark) rate(mark);
    else if (event.key === "ArrowRight") go(place + 1);
    else if (event.key === "ArrowLeft") go(place - 1);
    else return;
    event.preventDefault();
  });

  // ---- the file -----------------------------------------------------------------------------

  find("rater").addEventListener("input", (event) => {
    state.rater = event.target.value;
    keep();
  });
  find("save").addEventListener("click", () => {
    const rated = pairs.filter((pair) => nameOf(pair) in state.marks);
    const file = {
      format: asked.format,
      data: asked.data,
      rater_id: state.id,
      rater: state.rater,
      ratings: rated.map((pair) => [...pair, state.marks[nameOf(pair)]]),
    };
    const href = URL.createObjectURL(new Blob([JSON.stringify(file)], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href, download: `ratings-${state.id}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
    find("saved").value = `ratings-${state.id}.json: ${rated.length} of ${pairs.length} marks`;
  });
  find("another").addEventListener("click", () => {
    if (!confirm("Delete the marks of this page? Save the file first.")) return;
    state = { id: newId(), rater: "", marks: {} };
    keep();
    find("rater").value = "";
    go(0);
  });

  document.querySelector("main").hidden = false;
  find("rater").value = state.rater;
  keep();
  const first = pairs.findIndex((pair) => !(nameOf(pair) in state.marks));
  go(first < 0 ? 0 : first);
})();
