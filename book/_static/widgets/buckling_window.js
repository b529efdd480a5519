/* Moving part "buckling-window": the second variation of the action with friction a(t), loss theta^2 / 2 (L = 1), on a window:
       1/2 int z'^2 - (1 - chi) z^2 dt,   chi = a^2 / 4 + a' / 2,   z = 0 at both ends.
   Its lowest modes are those of -z'' + (chi - 1) z by second differences on NODES intervals: eigenvalues by counting sign changes
   (Sturm) and halving, modes by inverse iteration. The limit is the first time at which the phase of Jacobi's field,
       phi' = cos^2 phi + sin^2 phi + a sin phi cos phi,   phi(t1) = 0,   reaches pi (Runge-Kutta; closed form for constant a).
   Markup: <div class="ld-widget" data-widget="buckling-window"></div>; whatever stands inside is replaced.
   Optional: data-start="1", data-length="3.6", data-friction="3", data-constant="1". Formulas: window.learningDynamics.bucklingWindow. */
(function () {
  "use strict";
  const { add, set, number, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const NODES = 200;
  const FAR = 40;
  const barrier = (t, size, constant) => (constant ? size ** 2 / 4 : (size * (size - 2)) / (4 * t * t));
  /** Diagonal of the matrix; beside it stands -1 / width^2. */
  function column(start, length, size, constant) {
    const width = length / NODES;
    const diagonal = Array.from({ length: NODES - 1 }, (_, k) =>
      2 / width ** 2 + barrier(start + (k + 1) * width, size, constant) - 1);
    return { diagonal, side: -1 / width ** 2, width };
  }
  /** How many eigenvalues lie below x. */
  function below({ diagonal, side }, x) {
    let [pivot, count] = [1, 0];
    diagonal.forEach((d, k) => {
      pivot = d - x - (k ? side ** 2 / pivot : 0);
      if (pivot === 0) pivot = 1e-300;
      if (pivot < 0) count += 1;
    });
    return count;
  }
  function eigenvalue(matrix, k) {
    let [low, high] = [Math.min(...matrix.diagonal) + 2 * matrix.side, Math.max(...matrix.diagonal) - 2 * matrix.side];
    for (let i = 0; i < 80; i += 1) {
      const middle = (low + high) / 2;
      if (below(matrix, middle) > k) high = middle;
      else low = middle;
    }
    return (low + high) / 2;
  }
  /** The mode of an eigenvalue, largest entry 1 in size, positive at first. */
  function mode({ diagonal, side }, value) {
    const n = diagonal.length;
    const shifted = value + 1e-7 * (1 + Math.abs(value));
    let x = Array.from({ length: n }, (_, k) => 1 + 0.3 * Math.sin(7 * k));
    for (let round = 0; round < 4; round += 1) {
      const [pivots, rhs] = [[], []];
      for (let k = 0; k < n; k += 1) {
        const factor = k ? side / pivots[k - 1] : 0;
        pivots.push(diagonal[k] - shifted - factor * side);
        rhs.push(x[k] - (k ? factor * rhs[k - 1] : 0));
      }
      for (let k = n - 1; k >= 0; k -= 1) x[k] = (rhs[k] - (k < n - 1 ? side * x[k + 1] : 0)) / pivots[k];
      const top = Math.max(...x.map(Math.abs)) * (x[0] < 0 ? -1 : 1);
      x = x.map((v) => v / top);
    }
    return x;
  }
  /** Length of the longest window that starts here; infinity if none is found up to FAR. */
  function limit(start, size, constant) {
    if (constant) return size < 2 ? Math.PI / Math.sqrt(1 - size ** 2 / 4) : Infinity;
    const speed = (t, phi) => 1 + (size / t) * Math.sin(phi) * Math.cos(phi);
    let [t, phi] = [start, 0];
    while (t < start + FAR) {
      const h = Math.min(0.01, 0.02 * t);
      const a = speed(t, phi);
      const b = speed(t + h / 2, phi + (h / 2) * a);
      const c = speed(t + h / 2, phi + (h / 2) * b);
      const next = phi + (h / 6) * (a + 2 * b + 2 * c + speed(t + h, phi + h * c));
      if (next >= Math.PI) return t - start + (h * (Math.PI - phi)) / (next - phi);
      [t, phi] = [t + h, next];
    }
    return Infinity;
  }
  function state(start, length, size, constant) {
    const matrix = column(start, length, size, constant);
    const values = [eigenvalue(matrix, 0), eigenvalue(matrix, 1)];
    return { limit: limit(start, size, constant), values, negative: below(matrix, 0), modes: values.map((v) => mode(matrix, v)) };
  }

  window.learningDynamics.bucklingWindow = { state, limit };

  // ---------------------------------------------------------------- picture
  const RANGE = { start: [0.01, 20], length: [1, 12], friction: [0, 6] };
  const HTML = `
    <p class="ld-widget-title">A window of time as a column under load. When does it buckle?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="law"></div><div data-part="mode"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span><bdi>start t<sub>1</sub></bdi> <data data-quantity="start"></data></span>
          <input type="range" name="start" min="-2" max="1.3" step="0.05"></label>
        <label class="ld-slider"><span>length Δ <data data-quantity="length"></data></span>
          <input type="range" name="length" min="1" max="12" step="0.1"></label>
        <label class="ld-slider"><span>friction <data data-quantity="friction"></data></span>
          <input type="range" name="friction" min="0" max="6" step="0.1"></label>
        <label><input type="checkbox" name="constant"> constant friction</label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="verdict"></p>
          <dl class="ld-numbers">
            <dt>longest window on which it is least</dt><dd data-quantity="limit"></dd>
            <dt>lowest eigenvalue</dt><dd data-quantity="lowest"></dd>
            <dt>directions that lower the action</dt><dd data-quantity="negative"></dd>
            <dt>action along the lowest mode, size 1</dt><dd data-quantity="action"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Loss θ²/2, so L = 1. Top: the limit against the start of the window, and the chosen window as a dot. Below: the lowest
      mode and, dashed, the next one, scaled to height one. Size 1: the integral of the square of the mode is 1.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const chosen = {
      start: given(host, "start", 1, ...RANGE.start),
      length: given(host, "length", 3.6, ...RANGE.length),
      friction: given(host, "friction", 3, ...RANGE.friction),
      constant: given(host, "constant", 0, 0, 1) === 1,
    };
    const law = panel(find('[data-part="law"]'), {
      label: "The longest window against its start, and the chosen window as a dot.", tall: 210,
      x: { low: 0.01, high: 20, log: true, ticks: [0.01, 0.1, 1, 10].map((v) => [v, String(v)]), title: "start t₁" },
      y: { low: 0, high: 12, ticks: [0, Math.PI, 6, 9, 12].map((v) => [v, v === Math.PI ? "π" : String(v)]), title: "length Δ" },
    });
    const picture = panel(find('[data-part="mode"]'), {
      label: "The lowest mode on the window and the next one.", tall: 200,
      x: { low: 0, high: 1, ticks: [[0, "t₁"], [0.5, "middle"], [1, "t₂"]], title: "time" },
      y: { low: -1.15, high: 1.15, ticks: [-1, 0, 1].map((v) => [v, number(v, 0)]), title: "z" },
    });
    const level = add(law.area, "path", { class: "curve muted thin" });
    const curve = add(law.area, "path", { class: "curve blue" });
    const dot = add(law.area, "circle", { r: 5, class: "iterate", "data-part": "window" });
    const next = add(picture.area, "path", { class: "curve control" });
    const lowest = add(picture.area, "path", { class: "curve orange", "data-part": "lowest" });

    function draw() {
      const { start, length, friction, constant } = chosen;
      const now = state(start, length, friction, constant);
      const starts = Array.from({ length: 45 }, (_, k) => 10 ** (-2 + (3.31 * k) / 44));
      set(level, { d: law.path([[0.01, Math.PI], [20, Math.PI]]) });
      set(curve, { d: law.path(starts.map((t) => [t, limit(t, friction, constant)])) });
      set(dot, { cx: law.x(start), cy: law.y(length) });
      const line = (values) => picture.path([[0, 0], ...values.map((z, k) => [(k + 1) / NODES, z]), [1, 0]]);
      set(lowest, { d: line(now.modes[0]) });
      set(next, { d: line(now.modes[1]) });

      shown.start.textContent = number(start, 2);
      shown.length.textContent = number(length, 1);
      shown.friction.textContent = constant ? number(friction, 1) : `${number(friction, 1)}/t`;
      shown.limit.textContent = now.limit === Infinity ? "every window" : number(now.limit, 4);
      shown.lowest.textContent = number(now.values[0], 4);
      shown.negative.textContent = String(now.negative);
      shown.action.textContent = number(now.values[0] / 2, 4);
      shown.verdict.textContent = now.negative
        ? "The column buckles: the path is a saddle of its action."
        : "The column stands: the path makes its action least.";
      for (const name of ["start", "length", "friction"]) {
        find(`[name="${name}"]`).value = name === "start" ? Math.log10(start) : chosen[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
      find('[name="constant"]').checked = constant;
    }
    function layout() {
      law.layout();
      picture.layout();
      draw();
    }
    for (const name of ["start", "length", "friction"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        const value = Number(event.target.value);
        chosen[name] = clamp(name === "start" ? 10 ** value : value, ...RANGE[name]);
        draw();
      });
    }
    find('[name="constant"]').addEventListener("change", (event) => {
      chosen.constant = event.target.checked;
      draw();
    });
    host.replaceChildren(node);
    follow(find('[data-part="law"]'), layout);
  }

  mount("buckling-window", build);
})();
