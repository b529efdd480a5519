/* Moving part "minimum-norm": one sample X = [1, 2], y = 2, two weights.
   Where gradient descent with the preconditioner P ends is known before its first step:
       theta_0 + P X^T (X P X^T)^{-1} (y - X theta_0).
   Markup: <div class="ld-widget" data-widget="minimum-norm"></div>; whatever stands inside is replaced.
   Optional: data-starts="0,0; -1.4,0.2; ..." (first one active), data-angle="0", data-ratio="1".
   Pure formulas: window.learningDynamics.minimumNorm. Angles are in degrees. */
(function () {
  "use strict";
  const { add, set, number, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const X = [1, 2];
  const Y = 2;
  const STEPS = 60;
  const RATE = 0.35; // eta X P X^T: each step leaves 1 - RATE of the residual
  const ADAM = { steps: 1500, size: 0.1, decay: 0.99, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
  const LEAST_NORM = [0.4, 0.8]; // X^+ y

  const residual = (theta) => X[0] * theta[0] + X[1] * theta[1] - Y;
  const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

  /** P = R diag(ratio, 1) R^T, its long axis at `angle` degrees. */
  function preconditioner(angle, ratio) {
    const c = Math.cos((angle * Math.PI) / 180);
    const s = Math.sin((angle * Math.PI) / 180);
    const off = (ratio - 1) * c * s;
    return [[ratio * c * c + s * s, off], [off, ratio * s * s + c * c]];
  }

  /** P X^T and X P X^T. */
  function direction(angle, ratio) {
    const P = preconditioner(angle, ratio);
    const v = [P[0][0] * X[0] + P[0][1] * X[1], P[1][0] * X[0] + P[1][1] * X[1]];
    return { v, size: X[0] * v[0] + X[1] * v[1] };
  }

  /** The prediction: theta_0 + P X^T (X P X^T)^{-1} (y - X theta_0). */
  function endPoint(start, angle, ratio) {
    const { v, size } = direction(angle, ratio);
    const c = -residual(start) / size;
    return [start[0] + c * v[0], start[1] + c * v[1]];
  }

  /** The run: theta <- theta - eta P X^T (X theta - y), every iterate kept. */
  function descend(start, angle, ratio, steps = STEPS) {
    const { v, size } = direction(angle, ratio);
    const eta = RATE / size;
    const path = [start.slice()];
    let theta = start.slice();
    for (let k = 0; k < steps; k += 1) {
      const r = residual(theta);
      theta = [theta[0] - eta * v[0] * r, theta[1] - eta * v[1] * r];
      path.push(theta);
    }
    return path;
  }

  /** Adam on the same loss, step size 0.1 * 0.99^k. */
  function adam(start, steps = ADAM.steps) {
    const path = [start.slice()];
    const theta = start.slice();
    const m = [0, 0];
    const v = [0, 0];
    for (let k = 1; k <= steps; k += 1) {
      const r = residual(theta);
      const size = ADAM.size * ADAM.decay ** (k - 1);
      for (let i = 0; i < 2; i += 1) {
        const g = X[i] * r;
        m[i] = ADAM.beta1 * m[i] + (1 - ADAM.beta1) * g;
        v[i] = ADAM.beta2 * v[i] + (1 - ADAM.beta2) * g * g;
        const root = Math.sqrt(v[i] / (1 - ADAM.beta2 ** k));
        theta[i] -= (size * m[i]) / (1 - ADAM.beta1 ** k) / (root + ADAM.epsilon);
      }
      path.push(theta.slice());
    }
    return path;
  }

  window.learningDynamics.minimumNorm = { X, Y, preconditioner, endPoint, descend, adam };

  // ---------------------------------------------------------------- picture
  const VIEW = { left: -2, right: 3, middle: 0.72 };
  const STARTS = [[0, 0], [-1.4, 0.2], [0.3, 2.1], [1, -0.5], [2.4, 0.9]];

  const pair = (p, digits = 4) => `(${number(p[0], digits)}, ${number(p[1], digits)})`;
  const tiny = (x) => {
    if (x < 1e-15) return "less than 10⁻¹⁵";
    const power = Math.floor(Math.log10(x));
    if (power >= -3) return number(x);
    const digits = String(-power).replace(/\d/g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]);
    return `${(x / 10 ** power).toFixed(1)}×10⁻${digits}`;
  };

  const HTML = `
    <p class="ld-widget-title">The end point is known before the first step.</p>
    <div data-part="picture"></div>
    <div class="ld-widget-controls">
      <label class="ld-slider"><span>stretch of P <data data-quantity="ratio"></data></span>
        <input type="range" name="ratio" min="1" max="10" step="0.1"></label>
      <label class="ld-slider"><span>angle of P <data data-quantity="angle"></data></span>
        <input type="range" name="angle" min="-90" max="90" step="1"></label>
    </div>
    <div class="ld-widget-controls">
      <button type="button" name="run">Run gradient descent</button>
      <label class="ld-check"><input type="checkbox" name="adam"> Adam too</label>
      <button type="button" name="reset">Reset</button>
    </div>
    <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
      <dl class="ld-numbers">
        <dt>start</dt><dd data-quantity="start"></dd>
        <dt><span class="ld-key blue">predicted end</span></dt><dd data-quantity="end"></dd>
        <dt><span class="ld-key orange">gradient descent</span></dt><dd data-quantity="run"></dd>
        <dt data-part="adam" hidden><span class="ld-key green">Adam</span></dt>
        <dd data-part="adam" data-quantity="adam" hidden></dd>
        <dt>distance to X⁺y</dt><dd data-quantity="distance"></dd>
        <dt>norm of the end</dt><dd data-quantity="norm"></dd>
      </dl>
    </div>
    <p class="ld-widget-note">Drag a start, or focus it and use the arrow keys (Shift: finer). The ellipse is the ball of
      P⁻¹ around the start: it touches the line where the run will end. <span data-part="adam" hidden>Adam gets no arrow: it
      makes its own P from the gradients it meets. With one sample its path is still straight, along (1,&nbsp;1); from
      two samples on it bends.</span></p>`;

  function build(host) {
    const box = document.createElement("div");
    box.className = "ld-widget-box";
    box.innerHTML = HTML;
    const find = (selector) => box.querySelector(selector);
    const shown = {};
    for (const node of box.querySelectorAll("[data-quantity]")) shown[node.dataset.quantity] = node;
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");

    const given = (host.dataset.starts || "").split(";").map((s) => s.split(",").map(Number));
    const usable = given.length > 0 && given.every((p) => p.length === 2 && p.every(Number.isFinite));
    const initial = {
      starts: usable ? given : STARTS,
      angle: Number(host.dataset.angle || 0),
      ratio: Number(host.dataset.ratio || 1),
    };
    const state = { starts: [], active: 0, angle: 0, ratio: 1, adam: false, step: STEPS, dragging: false };
    let scale = 1;
    let height = 1;
    let frame = 0;
    const px = (p) => [(p[0] - VIEW.left) * scale, height / 2 - (p[1] - VIEW.middle) * scale];
    const at = (p) => px(p).map((v) => v.toFixed(2)).join(" ");

    // the parts of the picture, back to front
    const svg = add(find('[data-part="picture"]'), "svg", { role: "group", "aria-label":
      "The plane of two weights with the line of all solutions. Each start carries an arrow to its predicted end." });
    const axes = add(svg, "g");
    const ellipse = add(svg, "ellipse", { class: "ball" });
    const line = add(svg, "line", { class: "solutions" });
    const lineLabel = add(svg, "text", { class: "halo", "text-anchor": "middle" }, "solutions: θ₁ + 2θ₂ = 2");
    const adamPath = add(svg, "path", { class: "adam" });
    const rows = initial.starts.map(() => {
      const group = add(svg, "g");
      return {
        group,
        arrow: add(group, "line", { class: "arrow" }),
        head: add(group, "path", { class: "head" }),
        dots: add(group, "g"),
        ring: add(group, "circle", { class: "ring", r: 7 }),
      };
    });
    const adamEnd = add(svg, "rect", { class: "adam-end", width: 10, height: 10, "data-part": "adam-end" });
    const adamLabel = add(svg, "text", { class: "halo green" }, "Adam");
    const least = add(svg, "circle", { class: "mark", r: 3.2 });
    const endLabel = add(svg, "text", { class: "halo blue" });
    const leastLabel = add(svg, "text", { class: "halo", "text-anchor": "end" }, "X⁺y");
    const startLabel = add(svg, "text", { class: "halo", "text-anchor": "middle" }, "start");
    const handles = initial.starts.map((_, i) => {
      const node = add(svg, "g", { class: "handle", tabindex: 0, role: "slider", "data-start": i,
        "aria-roledescription": "movable point", "aria-valuemin": VIEW.left, "aria-valuemax": VIEW.right });
      add(node, "circle", { class: "grip", r: 18 });
      add(node, "circle", { class: "focus", r: 11 });
      add(node, "circle", { class: "dot", r: 6 });
      return node;
    });

    function layout() {
      const width = Math.max(260, svg.parentNode.clientWidth || 640);
      height = Math.round(Math.min(Math.max(0.68 * width, 290), 500));
      scale = width / (VIEW.right - VIEW.left);
      set(svg, { viewBox: `0 0 ${width} ${height}`, height });
      axes.replaceChildren();
      const [ox, oy] = px([0, 0]);
      add(axes, "line", { class: "axis", x1: 0, x2: width, y1: oy, y2: oy });
      add(axes, "line", { class: "axis", x1: ox, x2: ox, y1: 0, y2: height });
      for (const t of [-1, 1, 2]) {
        const [tx] = px([t, 0]);
        const [, ty] = px([0, t]);
        add(axes, "line", { class: "axis", x1: tx, x2: tx, y1: oy - 3, y2: oy + 3 });
        add(axes, "text", { class: "small muted", x: tx, y: oy + 16, "text-anchor": "middle" }, number(t, 0));
        if (ty > 14 && ty < height - 6) {
          add(axes, "line", { class: "axis", x1: ox - 3, x2: ox + 3, y1: ty, y2: ty });
          if (t !== 1) add(axes, "text", { class: "small muted", x: ox - 7, y: ty + 4, "text-anchor": "end" }, number(t, 0));
        }
      }
      add(axes, "text", { class: "muted", x: width - 6, y: oy - 8, "text-anchor": "end" }, "θ₁");
      add(axes, "text", { class: "muted", x: ox + 8, y: 14 }, "θ₂");
      const [x1, y1] = px([VIEW.left - 1, 1 - (VIEW.left - 1) / 2]);
      const [x2, y2] = px([VIEW.right + 1, 1 - (VIEW.right + 1) / 2]);
      set(line, { x1, y1, x2, y2 });
      const narrow = width < 520;
      lineLabel.textContent = narrow ? "θ₁ + 2θ₂ = 2" : "solutions: θ₁ + 2θ₂ = 2";
      const [lx, ly] = px([-1.36, 1.68]);
      set(lineLabel, { transform: `translate(${lx} ${ly}) rotate(26.57) translate(0 -9)` });
      draw();
    }

    function draw() {
      const s = state.starts[state.active];
      const end = endPoint(s, state.angle, state.ratio);
      const { size } = direction(state.angle, state.ratio);
      const radius = (Math.abs(residual(s)) / Math.sqrt(size)) * scale;
      const [sx, sy] = px(s);
      set(ellipse, { rx: radius * Math.sqrt(state.ratio), ry: radius,
        transform: `translate(${sx} ${sy}) rotate(${-state.angle})` });

      rows.forEach((row, i) => {
        const start = state.starts[i];
        const goal = endPoint(start, state.angle, state.ratio);
        const [x1, y1] = px(start);
        const [gx, gy] = px(goal);
        const length = Math.hypot(gx - x1, gy - y1);
        const [ux, uy] = length > 0 ? [(gx - x1) / length, (gy - y1) / length] : [0, 0];
        const [x2, y2] = [gx - 8 * ux, gy - 8 * uy];
        const visible = length > 20;
        row.group.setAttribute("class", i === state.active ? "" : "faint");
        set(row.ring, { cx: gx, cy: gy });
        set(row.arrow, { x1, y1, x2: x2 - 6 * ux, y2: y2 - 6 * uy, visibility: visible ? "visible" : "hidden" });
        set(row.head, { visibility: visible ? "visible" : "hidden",
          d: `M${x2} ${y2}L${x2 - 10 * ux - 4.5 * uy} ${y2 - 10 * uy + 4.5 * ux}L${x2 - 10 * ux + 4.5 * uy} ${y2 - 10 * uy - 4.5 * ux}Z` });
        row.dots.replaceChildren();
        if (state.step > 0) {
          const path = descend(start, state.angle, state.ratio, state.step);
          path.slice(1).forEach((p, k) => {
            const [cx, cy] = px(p);
            if (k < 9 || k === path.length - 2) add(row.dots, "circle", { class: "iterate", cx, cy, r: k === path.length - 2 ? 4.4 : 3 });
          });
        }
        const [hx, hy] = px(start);
        set(handles[i], { transform: `translate(${hx} ${hy})`, class: i === state.active ? "handle active" : "handle",
          "aria-label": `Start ${i + 1} of ${rows.length}`, "aria-valuenow": start[0], "aria-valuetext": pair(start, 2) });
      });

      // labels, kept clear of each other
      const [ex, ey] = px(end);
      const [lx, ly] = px(LEAST_NORM);
      const together = Math.hypot(ex - lx, ey - ly) < 4;
      const below = sy > ey; // the start lies below the line: its end's label goes above, and the other way round
      set(least, { cx: lx, cy: ly });
      set(leastLabel, { x: lx + (below ? -8 : 3), y: ly + 22, visibility: together ? "hidden" : "visible" });
      endLabel.textContent = together ? "predicted end = X⁺y" : "predicted end";
      const wide = together ? 132 : 88;
      const edge = svg.viewBox.baseVal.width;
      const show = state.adam && state.step > 0;
      const adamRun = show ? adam(s, Math.round((ADAM.steps * state.step) / STEPS)) : [s];
      const adamLast = adamRun[adamRun.length - 1];
      const [ax, ay] = px(adamLast);
      const flip = ex + 12 + wide > edge || (show && ax > ex && ex > wide);
      set(endLabel, { "text-anchor": flip ? "end" : "start", x: flip ? Math.min(ex + 8, edge - 4) : Math.max(ex + (below ? 9 : -24), 4),
        y: below ? ey - 13 : ey + 24 });
      set(startLabel, { x: Math.min(Math.max(sx, 18), edge - 18), y: below ? sy + 22 : sy - 14 });

      for (const node of box.querySelectorAll('[data-part="adam"]')) node.hidden = !state.adam;
      for (const node of [adamPath, adamEnd, adamLabel]) node.setAttribute("visibility", show ? "visible" : "hidden");
      if (show) {
        set(adamPath, { d: `M${adamRun.filter((_, k) => k < 400 || k === adamRun.length - 1).map(at).join("L")}` });
        set(adamEnd, { x: -5, y: -5, transform: `translate(${ax} ${ay}) rotate(45)` });
        const left = ax <= ex;
        set(adamLabel, { x: left ? ax + 6 : ax - 2, y: below ? ay - 17 : ay + 27, "text-anchor": left ? "end" : "start" });
        shown.adam.textContent =
          `${pair(adamLast)} after ${adamRun.length - 1} steps, ${number(distance(adamLast, end))} from the prediction`;
      } else {
        shown.adam.textContent = "not run yet";
      }

      // what the picture says, in words
      const done = state.step > 0 ? descend(s, state.angle, state.ratio, state.step) : null;
      const last = done && done[done.length - 1];
      shown.ratio.textContent = state.ratio === 1 ? "1 : 1 (P = I)" : `${number(state.ratio, 1)} : 1`;
      shown.angle.textContent = `${number(state.angle, 0)}°`;
      shown.start.textContent = pair(s, 2);
      shown.end.textContent = pair(end);
      shown.run.textContent = last
        ? `${pair(last)} after ${state.step} steps, ${tiny(distance(last, end))} from the prediction`
        : "not run yet";
      shown.distance.textContent = number(distance(end, LEAST_NORM));
      shown.norm.textContent = number(Math.hypot(end[0], end[1]));
      find('[name="ratio"]').value = state.ratio;
      find('[name="angle"]').value = state.angle;
      find('[name="adam"]').checked = state.adam;
    }

    function quiet(flag) {
      find('[data-part="readout"]').setAttribute("aria-live", flag ? "off" : "polite");
    }
    function stop() {
      cancelAnimationFrame(frame);
      frame = 0;
    }
    /** Something was turned: only the prediction stands, until the next run. */
    function changed() {
      stop();
      state.step = 0;
      quiet(state.dragging);
      draw();
    }
    function run() {
      stop();
      if (still.matches) {
        state.step = STEPS;
        draw();
        return;
      }
      const began = performance.now();
      state.step = 0;
      quiet(true);
      const tick = (now) => {
        const part = Math.min(Math.max((now - began) / 2200, 0), 1);
        const step = Math.round(1 + (STEPS - 1) * part ** 2.2); // the first steps, which can be seen, slowly
        if (step === STEPS) quiet(false);
        if (step !== state.step) {
          state.step = step;
          draw();
        }
        frame = part < 1 ? requestAnimationFrame(tick) : 0;
      };
      frame = requestAnimationFrame(tick);
    }
    function reset() {
      stop();
      state.starts = initial.starts.map((p) => p.slice());
      Object.assign(state, { active: 0, angle: initial.angle, ratio: initial.ratio, adam: false, step: STEPS });
    }
    function move(i, p) {
      const reach = height / (2 * scale) - 0.08;
      const clamp = (v, low, high) => Math.min(Math.max(Math.round(v * 100) / 100, low), high);
      state.active = i;
      state.starts[i] = [clamp(p[0], VIEW.left + 0.1, VIEW.right - 0.1),
        clamp(p[1], Math.ceil((VIEW.middle - reach) * 100) / 100, Math.floor((VIEW.middle + reach) * 100) / 100)];
      changed();
    }

    handles.forEach((node, i) => {
      node.addEventListener("focus", () => {
        state.active = i;
        draw();
      });
      node.addEventListener("keydown", (event) => {
        const by = event.shiftKey ? 0.01 : 0.1;
        const step = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] }[event.key];
        if (!step && event.key !== "Home") return;
        event.preventDefault();
        const p = state.starts[i];
        move(i, step ? [p[0] + step[0], p[1] + step[1]] : initial.starts[i]);
      });
      node.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        event.preventDefault();
        node.focus({ preventScroll: true });
        node.setPointerCapture(event.pointerId);
        state.dragging = true;
      });
      node.addEventListener("pointermove", (event) => {
        if (!node.hasPointerCapture(event.pointerId)) return;
        const area = svg.getBoundingClientRect();
        move(i, [VIEW.left + (event.clientX - area.left) / scale,
          VIEW.middle + (height / 2 - (event.clientY - area.top)) / scale]);
      });
      for (const name of ["pointerup", "pointercancel"]) {
        node.addEventListener(name, () => {
          state.dragging = false;
          quiet(false);
        });
      }
    });
    for (const name of ["ratio", "angle"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = Number(event.target.value);
        changed();
      });
    }
    find('[name="adam"]').addEventListener("change", (event) => {
      state.adam = event.target.checked;
      if (state.adam) run();
      else draw();
    });
    find('[name="run"]').addEventListener("click", run);
    find('[name="reset"]').addEventListener("click", () => {
      reset();
      quiet(false);
      draw();
    });

    reset();
    host.replaceChildren(box);
    follow(svg.parentNode, layout);
  }

  mount("minimum-norm", build);
})();
