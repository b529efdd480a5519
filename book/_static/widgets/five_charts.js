/* Moving part "five-charts": a coin that should become fair, by natural gradient steps in five coordinates chi of its
   probability p. The velocity is v = (1/2 - p) / p'(chi), and a step solves (1 - w eta v'(chi)) delta = eta v(chi):
   w = 0 explicit, w = 1/2 half implicit. Infinitely short steps: p(t) = 1/2 + (p0 - 1/2) exp(-t) in every chart.
   Markup: <div class="ld-widget" data-widget="five-charts"></div>; whatever stands inside is replaced.
   Optional: data-start="0.95" data-eta="1" data-weight="0" (or "0.5"). Pure formulas:
   window.learningDynamics.fiveCharts. */
(function () {
  "use strict";
  const { add, set, number, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const density = (x) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  /** The normal distribution function: a series near zero, a continued fraction in the tails. */
  function normal(x) {
    const a = Math.abs(x);
    let tail;
    if (a < 3) {
      let [term, sum] = [a, a];
      for (let k = 1; k < 80; k += 1) sum += term *= (a * a) / (2 * k + 1);
      tail = 0.5 - density(a) * sum;
    } else {
      let fraction = 0;
      for (let k = 120; k > 0; k -= 1) fraction = k / (a + fraction);
      tail = density(a) / (a + fraction);
    }
    return x < 0 ? tail : 1 - tail;
  }
  function quantile(p) {
    if (!(p > 0 && p < 1)) return p === 1 ? Infinity : p === 0 ? -Infinity : NaN;
    if (p > 0.5) return -quantile(1 - p);
    let [low, high] = [-40, 0];
    for (let k = 0; k < 100; k += 1) {
      const middle = (low + high) / 2;
      if (normal(middle) < p) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const within = (low, high, f) => (chi) => (chi >= low && chi <= high ? f(chi) : NaN);
  /** Each chart: p as a function of chi, its inverse, and the first two derivatives of p. */
  const CHARTS = {
    probability: { to: within(0, 1, (x) => x), from: (p) => p, slope: () => 1, bend: () => 0 },
    "log p": { to: within(-Infinity, 0, Math.exp), from: Math.log, slope: Math.exp, bend: Math.exp },
    arcsine: {
      to: within(0, Math.PI, (x) => Math.sin(x / 2) ** 2), from: (p) => 2 * Math.asin(Math.sqrt(p)),
      slope: (x) => Math.sin(x) / 2, bend: (x) => Math.cos(x) / 2,
    },
    probit: { to: normal, from: quantile, slope: density, bend: (x) => -x * density(x) },
    logit: {
      to: sigmoid, from: (p) => Math.log(p / (1 - p)), slope: (x) => sigmoid(x) * sigmoid(-x),
      bend: (x) => sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x)),
    },
  };
  const NAMES = Object.keys(CHARTS);

  /** One step in a chart; NaN where it leaves the chart. */
  function step(name, p, eta, weight) {
    const chart = CHARTS[name];
    const chi = chart.from(p);
    const slope = chart.slope(chi);
    const velocity = (0.5 - p) / slope;
    const change = -1 - ((0.5 - p) * chart.bend(chi)) / slope ** 2; // v'(chi)
    return chart.to(chi + (eta * velocity) / (1 - weight * eta * change));
  }
  function run(name, p, eta, weight, steps) {
    const path = [p];
    for (let k = 0; k < steps; k += 1) path.push(step(name, path[k], eta, weight));
    return path;
  }
  const flow = (p, t) => 0.5 + (p - 0.5) * Math.exp(-t);
  /** The distance of the farthest two after one step. */
  function spread(p, eta, weight) {
    const ends = NAMES.map((name) => step(name, p, eta, weight));
    return Math.max(...ends) - Math.min(...ends);
  }

  window.learningDynamics.fiveCharts = { NAMES, normal, quantile, step, run, flow, spread };

  // ---------------------------------------------------------------- picture
  const LOOKS = {
    probability: "curve blue", "log p": "curve green", arcsine: "curve orange", probit: "curve muted", logit: "curve",
  };
  const DASHES = { arcsine: "2 3", probit: "8 3", logit: "none", probability: "none", "log p": "none" };
  const HTML = `
    <p class="ld-widget-title">One method, one coin, five ways to write its probability</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture" data-part="picture"></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>start p₀ <data data-quantity="start"></data></span>
          <input type="range" name="start" min="0.55" max="0.97" step="0.01"></label>
        <label class="ld-slider"><span>step size η <data data-quantity="eta"></data></span>
          <input type="range" name="eta" min="0.05" max="1" step="0.05"></label>
        <fieldset class="ld-choice"><legend>step</legend>
          <label><input type="radio" value="0"> explicit</label>
          <label><input type="radio" value="0.5"> half implicit</label></fieldset>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            ${NAMES.map((name) => `<dt>in ${name}</dt><dd data-quantity="${name.replace(" ", "-")}"></dd>`).join("")}
            <dt>spread</dt><dd data-quantity="spread"></dd>
            <dt>spread / η²</dt><dd data-quantity="ratio"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Blue: in p. Green: in log p. Orange, dotted: in the arcsine. Grey, long dashes: in the probit. Dark: in the
      logit. Thin dashed line: infinitely short steps. A curve ends where a step leaves its chart or overflows.</p>`;

  let widgets = 0;
  function build(host) {
    const { node, find, shown } = box(HTML);
    const radios = [...node.querySelectorAll('input[type="radio"]')];
    widgets += 1;
    for (const radio of radios) radio.name = `weight-${widgets}`;
    const state = {
      start: given(host, "start", 0.95, 0.55, 0.97),
      eta: given(host, "eta", 1, 0.05, 1),
      weight: host.dataset.weight === "0.5" ? 0.5 : 0,
    };
    const picture = panel(find('[data-part="picture"]'), {
      label: "Probability against time for natural gradient steps in five charts, and for infinitely short steps.",
      tall: 330,
      x: { low: 0, high: 4, ticks: [0, 1, 2, 3, 4].map((v) => [v, String(v)]), title: "time t = ηk" },
      y: { low: -0.03, high: 1.03, ticks: [0, 0.25, 0.5, 0.75, 1].map((v) => [v, number(v, 2)]), title: "probability p" },
    });
    const limit = add(picture.area, "path", { class: "curve control thin" });
    const curves = NAMES.map((name) =>
      add(picture.area, "path", { class: LOOKS[name], "stroke-dasharray": DASHES[name], "data-part": name.replace(" ", "-") }));

    function draw() {
      const { start, eta, weight } = state;
      set(limit, { d: picture.path(Array.from({ length: 81 }, (_, k) => [k / 20, flow(start, k / 20)])) });
      NAMES.forEach((name, i) => {
        const path = run(name, start, eta, weight, Math.round(4 / eta));
        set(curves[i], { d: picture.path(path.map((p, k) => [k * eta, p])) });
        shown[name.replace(" ", "-")].textContent = Number.isNaN(path[1]) ? "left the chart" : number(path[1], 4);
      });
      const apart = spread(start, eta, weight);
      shown.start.textContent = number(start, 2);
      shown.eta.textContent = number(eta, 2);
      shown.spread.textContent = scientific(apart);
      shown.ratio.textContent = scientific(apart / eta ** 2);
      shown.end.textContent = `After one step the five coins are ${number(apart, 3)} apart; infinitely short steps lead to ${number(flow(start, eta), 4)}.`;
      find('[name="start"]').value = start;
      find('[name="eta"]').value = eta;
      for (const radio of radios) radio.checked = Number(radio.value) === weight;
    }

    for (const key of ["start", "eta"]) {
      find(`[name="${key}"]`).addEventListener("input", (event) => {
        state[key] = Number(event.target.value);
        draw();
      });
    }
    for (const radio of radios) {
      radio.addEventListener("change", () => {
        state.weight = Number(radio.value);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="picture"]'), () => {
      picture.layout();
      draw();
    });
  }

  mount("five-charts", build);
})();
