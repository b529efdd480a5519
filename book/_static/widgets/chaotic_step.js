/* Moving part "chaotic-step": the loss theta^2 / 2, divided by a power of the empirical Fisher theta^2:
       theta <- (1 - eta_k |theta|^(-2 q)) theta,   eta_k = c (k + 1)^(-a).
   Constant steps: a two-cycle at (eta / 2)^(1 / (2 q)), attracting for q < 1/2. At q = 1 a Cauchy law of scale s stays one:
   s <- s + eta_k / s, and s is the median of |theta|.
   Markup: <div class="ld-widget" data-widget="chaotic-step"></div>; whatever stands inside is replaced.
   Optional: data-exponent="1", data-schedule="constant" (or "root", "inverse"). Pure formulas:
   window.learningDynamics.chaoticStep. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const STEPS = 1000;
  const START = 0.7;
  const SCALE = 0.3;
  const SCHEDULES = { constant: { c: 0.1, a: 0 }, root: { c: 0.1, a: 0.5 }, inverse: { c: 0.3, a: 1 } };

  const stepSize = (schedule, k) => schedule.c * (k + 1) ** -schedule.a;
  const move = (theta, eta, q) => (theta === 0 ? 0 : (1 - eta * Math.abs(theta) ** (-2 * q)) * theta);

  function run(q, schedule, steps = STEPS, start = START) {
    const path = [start];
    for (let k = 0; k < steps; k += 1) path.push(move(path[k], stepSize(schedule, k), q));
    return path;
  }
  /** The quantiles of the Cauchy law of scale 0.3. */
  const starts = () => Array.from({ length: 201 }, (_, j) => SCALE * Math.tan(Math.PI * ((j + 0.5) / 201 - 0.5)));
  /** Median of |theta_k| over these starts, k = 0, 1, ..., steps. */
  function medians(q, schedule, steps = STEPS) {
    let theta = starts();
    const middle = (values) => Float64Array.from(values, Math.abs).sort()[100];
    const found = [middle(theta)];
    for (let k = 0; k < steps; k += 1) {
      const eta = stepSize(schedule, k);
      theta = theta.map((t) => move(t, eta, q));
      found.push(middle(theta));
    }
    return found;
  }
  /** Medians of the exact law for q = 1. */
  function cauchyScales(schedule, steps = STEPS) {
    const scales = [SCALE];
    for (let k = 0; k < steps; k += 1) scales.push(scales[k] + stepSize(schedule, k) / scales[k]);
    return scales;
  }
  /** The same step sizes with the Fisher, which is 1: median of |theta|. */
  function fisher(schedule, steps = STEPS) {
    const sizes = [SCALE];
    for (let k = 0; k < steps; k += 1) sizes.push(sizes[k] * (1 - stepSize(schedule, k)));
    return sizes;
  }
  const twoCycle = (eta, q) => (eta / 2) ** (1 / (2 * q));

  window.learningDynamics.chaoticStep = { SCHEDULES, run, starts, medians, cauchyScales, fisher, twoCycle };

  // ---------------------------------------------------------------- picture
  const HTML = `
    <p class="ld-widget-title">Divided by the empirical Fisher, does one parameter ever come to rest?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="sizes"></div><div data-part="web"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>exponent q <data data-quantity="exponent"></data></span>
          <input type="range" name="exponent" min="0.2" max="1" step="0.05"></label>
        <fieldset class="ld-choice"><legend>step size η<sub>k</sub></legend>
          <label><input type="radio" value="constant"> constant, 0.1</label>
          <label><input type="radio" value="root"> 0.1/√(k+1)</label>
          <label><input type="radio" value="inverse"> 0.3/(k+1)</label></fieldset>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="end"></p>
          <dl class="ld-numbers">
            <dt><span class="ld-key blue">median of |θ|</span></dt><dd data-quantity="median"></dd>
            <dt data-part="law"><span class="ld-key orange">exact median</span></dt><dd data-part="law" data-quantity="law"></dd>
            <dt data-part="cycle">two-cycle at</dt><dd data-part="cycle" data-quantity="cycle"></dd>
            <dt>Fisher (dashed)</dt><dd data-quantity="fisher"></dd>
          </dl>
          <p class="ld-widget-note">after 1000 steps</p>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Top: median over 201 starts (blue) and one run (dots). Below: forty steps of that run
      in the units u = θ/η<sup>1/(2q)</sup>, in which every constant step size gives the same map.</p>`;

  let widgets = 0;
  function build(host) {
    const { node, find, shown } = box(HTML);
    const radios = [...node.querySelectorAll('input[type="radio"]')];
    widgets += 1;
    for (const radio of radios) radio.name = `schedule-${widgets}`;
    const state = {
      exponent: given(host, "exponent", 1, 0.2, 1),
      schedule: host.dataset.schedule in SCHEDULES ? host.dataset.schedule : "constant",
    };
    const top = panel(find('[data-part="sizes"]'), {
      label: "Size of the parameter against the step number, both logarithmic: the median over starts, one run, and the Fisher.",
      tall: 270,
      x: { low: 1, high: STEPS, log: true, ticks: [0, 1, 2, 3].map((k) => [10 ** k, k ? power(k) : "1"]), title: "step k" },
      y: { low: 1e-3, high: 1e3, log: true, ticks: [-3, -2, -1, 0, 1, 2, 3].map((k) => [10 ** k, k ? power(k) : "1"]), title: "|θₖ|" },
    });
    const web = panel(find('[data-part="web"]'), {
      label: "The map of one step, the diagonal, and a web of forty steps.", tall: 270, square: true,
      x: { low: -5, high: 5, ticks: [-4, -2, 0, 2, 4].map((v) => [v, number(v, 0)]), title: "uₖ" },
      y: { low: -5, high: 5, ticks: [-4, -2, 0, 2, 4].map((v) => [v, number(v, 0)]), title: "uₖ₊₁" },
    });
    const cycle = add(top.area, "line", { class: "solutions thin" });
    const dots = add(top.area, "path", { class: "dots" });
    const dashed = add(top.area, "path", { class: "curve control" });
    const median = add(top.area, "path", { class: "curve blue thick", "data-part": "median" });
    const law = add(top.area, "path", { class: "curve orange thin" });
    const diagonals = [1, -1].map(() => add(web.area, "path", { class: "curve muted thin" }));
    const cobweb = add(web.area, "path", { class: "curve orange thin", "data-part": "cobweb" });
    const branches = [-1, 1].map(() => add(web.area, "path", { class: "curve blue" }));
    const silent = add(web.labels, "text", { class: "small halo muted", "text-anchor": "middle" }, "the steps shrink: no fixed map to follow");

    function phrase(q, constant) {
      if (q < 0.499) return constant ? "settles on a two-cycle" : "settles on a two-cycle that shrinks with the step size";
      if (q < 0.501) return constant ? "oscillates" : "oscillates, at the size of the step";
      if (q < 0.81) return constant ? "wanders" : "wanders, and follows the step size down";
      return constant ? "wanders and does not come down" : "wanders and does not follow the step size down";
    }

    function draw() {
      const q = state.exponent;
      const schedule = SCHEDULES[state.schedule];
      const constant = schedule.a === 0;
      const middle = medians(q, schedule);
      const exact = cauchyScales(schedule);
      const calm = fisher(schedule);
      const one = run(q, schedule);
      const curve = (values) => top.path(values.map((v, k) => [k, Math.abs(v)]).slice(1));
      set(median, { d: curve(middle) });
      set(dashed, { d: curve(calm) });
      set(law, { d: q === 1 ? curve(exact) : "" });
      set(dots, { d: one.slice(1).map((v, k) => `M${top.x(k + 1).toFixed(1)} ${top.y(Math.abs(v)).toFixed(1)}h0`).join("") });
      const level = twoCycle(schedule.c, q);
      const showCycle = constant && q < 1;
      set(cycle, { x1: top.x(1), x2: top.x(STEPS), y1: top.y(level), y2: top.y(level), visibility: showCycle ? "visible" : "hidden" });

      diagonals.forEach((each, i) => set(each, { d: web.path([[-5, i ? 5 : -5], [5, i ? -5 : 5]]) }));
      branches.forEach((each, i) => set(each, { d: web.path(Array.from({ length: 160 }, (_, k) => {
        const u = (2 * i - 1) * 5.2 * ((k + 1) / 160) ** 2;
        return [u, move(u, 1, q)];
      })) }));
      const path = run(q, { c: 1, a: 0 }, 40, START / schedule.c ** (1 / (2 * q)));
      const corners = path.slice(0, -1).flatMap((u, k) => [[u, k ? u : 0], [u, path[k + 1]]]);
      set(cobweb, { d: constant ? web.path(corners) : "" });
      set(silent, { x: web.x(0), y: web.y(-4.4), visibility: constant ? "hidden" : "visible" });

      shown.exponent.textContent = number(q, 2);
      shown.median.textContent = scientific(middle[STEPS]);
      shown.fisher.textContent = scientific(calm[STEPS]);
      shown.law.textContent = scientific(exact[STEPS]);
      shown.cycle.textContent = scientific(level);
      for (const each of node.querySelectorAll('[data-part="law"]')) each.hidden = q !== 1;
      for (const each of node.querySelectorAll('[data-part="cycle"]')) each.hidden = !showCycle;
      shown.end.textContent = `q = ${number(q, 2)}: ${phrase(q, constant)}.`;
      find('[name="exponent"]').value = q;
      for (const radio of radios) radio.checked = radio.value === state.schedule;
    }

    find('[name="exponent"]').addEventListener("input", (event) => {
      state.exponent = Number(event.target.value);
      draw();
    });
    for (const radio of radios) {
      radio.addEventListener("change", () => {
        state.schedule = radio.value;
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="sizes"]'), () => {
      top.layout();
      web.layout();
      draw();
    });
  }

  mount("chaotic-step", build);
})();
