/* Moving part "hypentropy-ball": one sample X = [1, 2], y = 2, weights beta = w+^2 - w-^2, start w+ = w- = alpha.
   Gradient flow ends at the minimiser over the solution line of
       Q_alpha(beta) = alpha^2 sum_i q(beta_i / alpha^2),  q(z) = 2 - sqrt(4 + z^2) + z asinh(z / 2),
   and on its way it is at beta = 2 alpha^2 sinh(s X), s from 0 to the dual variable nu.
   Markup: <div class="ld-widget" data-widget="hypentropy-ball"></div>; whatever stands inside is replaced.
   Optional: data-alpha="0.1" (start state), data-autoplay="true" (moves by itself, unless reduced motion is asked for).
   Pure formulas: window.learningDynamics.hypentropyBall. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const X = [1, 2];
  const Y = 2;
  const LEAST_L1 = [0, 1];
  const LEAST_L2 = [0.4, 0.8];

  /** q without cancellation: 2 - sqrt(4 + z^2) = -z^2 / (2 + sqrt(4 + z^2)); good for small and large z. */
  function q(z) {
    return z * Math.asinh(z / 2) - z * (z / (2 + Math.hypot(2, z)));
  }

  /** sum_i q(beta_i / alpha^2), that is Q_alpha / alpha^2. */
  function level(beta, alpha) {
    return beta.reduce((sum, b) => sum + q(b / (alpha * alpha)), 0);
  }
  const potential = (beta, alpha) => alpha * alpha * level(beta, alpha);

  /** beta(s) = 2 alpha^2 sinh(s x): the whole path of the flow, ordered by s. */
  const onPath = (x, s, alpha) => x.map((xi) => 2 * alpha * alpha * Math.sinh(s * xi));

  /** The dual variable nu: x . 2 alpha^2 sinh(x nu) = y, for one sample x and y >= 0.
      The left side is increasing and convex in nu >= 0, and the starting value is an upper bound at which no sinh
      exceeds y / (2 alpha^2 |x_i|): Newton's method comes down from it monotonically and nothing overflows. */
  function dual(x, y, alpha) {
    const c = 2 * alpha * alpha;
    let nu = Math.min(...x.filter((xi) => xi !== 0).map((xi) => Math.asinh(y / (c * Math.abs(xi))) / Math.abs(xi)));
    for (let k = 0; k < 100; k += 1) {
      let excess = -y;
      let slope = 0;
      for (const xi of x) {
        excess += c * xi * Math.sinh(xi * nu);
        slope += c * xi * xi * Math.cosh(xi * nu);
      }
      const next = nu - excess / slope;
      if (!(next < nu)) break; // rounding has been reached
      nu = next;
    }
    return nu;
  }

  /** argmin of Q_alpha on {x . beta = y}. */
  const minimiser = (x, y, alpha) => onPath(x, dual(x, y, alpha), alpha);

  /** Largest relative change of a kernel weight, max_i sqrt(beta_i^2 + 4 alpha^4) / (2 alpha^2) - 1. */
  function kernelChange(beta, alpha) {
    const u = Math.max(...beta.map(Math.abs)) / (2 * alpha * alpha);
    return u * (u / (1 + Math.hypot(1, u)));
  }

  /** Radius of {sum_i q(beta_i / alpha^2) = target} in a unit direction: convex and increasing in the radius, so
      Newton's method from outside is monotone. */
  function radius(unit, target, alpha, outside) {
    let r = outside;
    for (let k = 0; k < 100; k += 1) {
      const z = unit.map((u) => (r * u) / (alpha * alpha));
      const value = z.reduce((sum, zi) => sum + q(zi), 0) - target;
      const slope = z.reduce((sum, zi, i) => sum + Math.asinh(zi / 2) * unit[i], 0) / (alpha * alpha);
      const next = r - value / slope;
      if (!(next < r) || !(next > 0)) break;
      if (r - next < 1e-14 * r) return next;
      r = next;
    }
    return r;
  }

  /** Level set of Q_alpha through `beta`, as a closed polygon; points crowd near the corners. */
  function boundary(beta, alpha, quarter = 60) {
    const target = level(beta, alpha);
    const outside = 4 * beta.reduce((sum, b) => sum + Math.abs(b), 0);
    const arc = [];
    for (let k = 0; k <= quarter; k += 1) {
      const t = (1 - Math.cos((Math.PI * k) / quarter)) / 2;
      const angle = (Math.PI / 2) * t * t * (3 - 2 * t);
      const unit = k === 0 ? [1, 0] : k === quarter ? [0, 1] : [Math.cos(angle), Math.sin(angle)];
      const r = radius(unit, target, alpha, outside);
      arc.push([r * unit[0], r * unit[1]]);
    }
    const back = arc.slice(1, -1).reverse();
    return [...arc, ...back.map(([a, b]) => [-a, b]), ...arc.map(([a, b]) => [-a, -b]), ...back.map(([a, b]) => [a, -b])];
  }

  window.learningDynamics.hypentropyBall = { X, Y, q, potential, onPath, dual, minimiser, kernelChange, boundary };

  // ---------------------------------------------------------------- picture
  const VIEW = { left: -1.25, right: 1.8, middle: 0.06 };
  const RANGE = { low: -4, high: 1 }; // log10 of alpha
  const DIAL = { low: -6, high: 8 }; // log10 of the change of the kernel
  const PERIOD = 24000; // milliseconds, there and back

  const HTML = `
    <p class="ld-widget-title">The scale of the start decides which solution training finds.</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture" data-part="picture"></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>start scale α <data data-quantity="alpha"></data></span>
          <input type="range" name="alpha" min="${RANGE.low}" max="${RANGE.high}" step="0.05"></label>
        <div class="ld-ends"><span>small</span><span>large</span></div>
        <div data-part="dial"></div>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout"><span data-quantity="finding"></span></p>
          <dl class="ld-numbers">
            <dt><span class="ld-key orange">training ends at</span></dt><dd data-quantity="end"></dd>
            <dt>from least ℓ₁ norm</dt><dd data-quantity="to-l1"></dd>
            <dt>from least ℓ₂ norm</dt><dd data-quantity="to-l2"></dd>
            <dt>kernel change</dt><dd data-quantity="kernel"></dd>
          </dl>
        </div>
        <div class="ld-widget-controls"><button type="button" name="play">Play</button></div>
      </div>
    </div>
    <p class="ld-widget-note">The <span class="ld-key blue">ball of Q<sub>α</sub></span> grows until it touches the line of
      solutions; <span class="ld-key orange">gradient flow</span> from zero ends exactly there.</p>`;

  function build(host) {
    const box = document.createElement("div");
    box.className = "ld-widget-box";
    box.innerHTML = HTML;
    const find = (selector) => box.querySelector(selector);
    const shown = {};
    for (const node of box.querySelectorAll("[data-quantity]")) shown[node.dataset.quantity] = node;
    const slider = find('[name="alpha"]');
    const button = find('[name="play"]');
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");

    const wanted = Math.log10(Number(host.dataset.alpha || 0.1));
    const state = { log: Number.isFinite(wanted) ? Math.min(Math.max(wanted, RANGE.low), RANGE.high) : -1, playing: false };
    let scale = 1;
    let height = 1;
    let frame = 0;
    const px = (p) => [(p[0] - VIEW.left) * scale, height / 2 - (p[1] - VIEW.middle) * scale];
    const at = (p) => px(p).map((v) => v.toFixed(2)).join(" ");

    // the plane, back to front
    const svg = add(find('[data-part="picture"]'), "svg", { role: "img", "aria-label":
      "The plane of two weights. The ball of Q alpha touches the line of all solutions at one point, where gradient flow from zero ends." });
    const axes = add(svg, "g");
    const ball = add(svg, "path", { class: "ball", "data-part": "ball" });
    const line = add(svg, "line", { class: "solutions", "data-part": "line" });
    const lineLabel = add(svg, "text", { class: "halo", "text-anchor": "middle" }, "solutions: Xβ = y");
    const l1 = add(svg, "circle", { class: "mark", r: 4 });
    const l2 = add(svg, "circle", { class: "mark", r: 4 });
    const flow = add(svg, "path", { class: "path" });
    const start = add(svg, "circle", { class: "mark", r: 4 });
    const end = add(svg, "circle", { class: "iterate", r: 6, "data-part": "end" });
    const l1Label = add(svg, "text", { class: "halo", "text-anchor": "end" }, "least ℓ₁ norm");
    const l2Label = add(svg, "text", { class: "halo" }, "least ℓ₂ norm");
    const startLabel = add(svg, "text", { class: "halo muted", "text-anchor": "end" }, "start");
    const ballLabel = add(svg, "text", { class: "blue" });
    ballLabel.append("ball of Q");
    const sub = document.createElementNS(svg.namespaceURI, "tspan");
    set(sub, { dy: 4, "font-size": 10 });
    sub.textContent = "α";
    ballLabel.append(sub);

    // the dial: how far the kernel moved, on a log scale
    const dial = add(find('[data-part="dial"]'), "svg", { viewBox: "0 0 220 124", height: 124, role: "img", "data-part": "needle" });
    const polar = (v, r) => {
      const a = Math.PI * (1 - (v - DIAL.low) / (DIAL.high - DIAL.low));
      return [110 + r * Math.cos(a), 100 - r * Math.sin(a)];
    };
    const arc = (from, to, r) => `M${polar(from, r).join(" ")}A${r} ${r} 0 0 1 ${polar(to, r).join(" ")}`;
    add(dial, "path", { class: "dial", d: arc(DIAL.low, DIAL.high, 70) });
    const dialOn = add(dial, "path", { class: "dial-on" });
    for (const v of [-4, 0, 4]) {
      const [x1, y1] = polar(v, 63);
      const [x2, y2] = polar(v, 77);
      add(dial, "line", { class: "axis", x1, y1, x2, y2 });
      const [tx, ty] = polar(v, 86);
      add(dial, "text", { class: "small muted", x: tx, y: ty + 3, "text-anchor": v < 0 ? "end" : v > 0 ? "start" : "middle" },
        v === 0 ? "1" : power(v));
    }
    const needle = add(dial, "line", { class: "needle", x1: 110, y1: 100 });
    add(dial, "circle", { class: "hub", cx: 110, cy: 100, r: 5 });
    add(dial, "text", { class: "small", x: 40, y: 119, "text-anchor": "middle" }, "kernel still");
    add(dial, "text", { class: "small", x: 182, y: 119, "text-anchor": "middle" }, "moved");

    function layout() {
      const width = Math.max(250, svg.parentNode.clientWidth || 420);
      scale = width / (VIEW.right - VIEW.left);
      height = Math.round(scale * 2.56);
      set(svg, { viewBox: `0 0 ${width} ${height}`, height });
      axes.replaceChildren();
      const [ox, oy] = px([0, 0]);
      add(axes, "line", { class: "axis", x1: 0, x2: width, y1: oy, y2: oy });
      add(axes, "line", { class: "axis", x1: ox, x2: ox, y1: 0, y2: height });
      for (const t of [-1, 1]) {
        const [tx] = px([t, 0]);
        const [, ty] = px([0, t]);
        add(axes, "line", { class: "axis", x1: tx, x2: tx, y1: oy - 3, y2: oy + 3 });
        add(axes, "text", { class: "small muted", x: tx + 10 * t, y: oy + 17, "text-anchor": "middle" }, number(t, 0));
        add(axes, "line", { class: "axis", x1: ox - 3, x2: ox + 3, y1: ty, y2: ty });
      }
      add(axes, "text", { class: "muted", x: width - 6, y: oy + 17, "text-anchor": "end" }, "β₁");
      add(axes, "text", { class: "muted", x: ox + 8, y: 13 }, "β₂");
      const [x1, y1] = px([VIEW.left - 1, 1 - (VIEW.left - 1) / 2]);
      const [x2, y2] = px([VIEW.right + 1, 1 - (VIEW.right + 1) / 2]);
      set(line, { x1, y1, x2, y2 });
      const [mx, my] = px([1.24, 0.38]);
      set(lineLabel, { transform: `translate(${mx} ${my}) rotate(26.57) translate(0 -9)` });
      const place = (mark, p) => set(mark, { cx: px(p)[0], cy: px(p)[1] });
      place(l1, LEAST_L1);
      place(l2, LEAST_L2);
      place(start, [0, 0]);
      const [ax, ay] = px(LEAST_L1);
      const [bx, by] = px(LEAST_L2);
      set(l1Label, { x: ax - 12, y: ay + 4 });
      set(l2Label, { x: bx + 9, y: by - 10 });
      set(startLabel, { x: ox - 10, y: oy - 9 });
      const [qx, qy] = px([-0.02, -0.5]);
      set(ballLabel, { x: qx - 10, y: qy, "text-anchor": "end" });
      draw();
    }

    function draw() {
      const alpha = 10 ** state.log;
      const nu = dual(X, Y, alpha);
      const beta = onPath(X, nu, alpha);
      set(ball, { d: `M${boundary(beta, alpha).map(at).join("L")}Z` });
      const points = [[0, 0]]; // evenly spaced in the share of the target that is fitted
      for (let k = 1; k < 100; k += 1) points.push(minimiser(X, (Y * k) / 100, alpha));
      points.push(beta);
      set(flow, { d: `M${points.map(at).join("L")}` });
      const [cx, cy] = px(beta);
      set(end, { cx, cy });

      const change = kernelChange(beta, alpha);
      const value = Math.min(Math.max(Math.log10(change), DIAL.low), DIAL.high);
      const [x2, y2] = polar(value, 58);
      set(needle, { x2, y2 });
      set(dialOn, { d: arc(DIAL.low, value, 70) });
      dial.setAttribute("aria-label", `Dial: largest relative change of the kernel, ${scientific(change)}`);

      const far = (p) => Math.hypot(beta[0] - p[0], beta[1] - p[1]);
      shown.alpha.textContent = scientific(alpha);
      shown.end.textContent = `(${number(beta[0])}, ${number(beta[1])})`;
      shown["to-l1"].textContent = number(far(LEAST_L1));
      shown["to-l2"].textContent = number(far(LEAST_L2));
      shown.kernel.textContent = `${scientific(change)}, relative`;
      shown.finding.textContent = far(LEAST_L2) < 0.02 ? "Circle: the least ℓ₂ norm, the kernel barely moves."
        : far(LEAST_L1) < 0.02 ? "Nearly a diamond: the least ℓ₁ norm, the kernel is left behind."
          : "Between the two: neither norm is least.";
      slider.value = state.log;
      slider.setAttribute("aria-valuetext", `start scale ${scientific(alpha)}`);
    }

    // ------------------------------------------------------------ motion
    let seen = true;
    let phase = 0;
    let before = 0;
    const middle = (RANGE.low + 1.5 + RANGE.high) / 2; // moves between 10^-2.5 and 10
    const reach = (RANGE.high - RANGE.low - 1.5) / 2;
    function tick(now) {
      const passed = before ? Math.min(now - before, 100) : 0;
      before = now;
      if (seen && passed > 0) {
        phase += (2 * Math.PI * passed) / PERIOD;
        const target = middle - reach * Math.cos(phase);
        state.log += (target - state.log) * (1 - Math.exp(-passed / 300)); // no jump, wherever the slider stood
        draw();
      }
      frame = requestAnimationFrame(tick);
    }
    function play(flag) {
      if (flag === state.playing) return;
      state.playing = flag;
      button.textContent = flag ? "Pause" : "Play";
      find('[data-part="readout"]').setAttribute("aria-live", flag ? "off" : "polite");
      cancelAnimationFrame(frame);
      if (!flag) return;
      const c = Math.min(Math.max((middle - state.log) / reach, -1), 1);
      phase = Math.acos(c); // go on from where the slider stands, towards larger scales
      before = 0;
      frame = requestAnimationFrame(tick);
    }
    button.addEventListener("click", () => play(!state.playing));
    for (const name of ["pointerdown", "keydown"]) slider.addEventListener(name, (event) => event.key !== "Tab" && play(false));
    slider.addEventListener("input", () => {
      play(false);
      state.log = Number(slider.value);
      draw();
    });

    host.replaceChildren(box);
    follow(svg.parentNode, layout);
    if (window.IntersectionObserver) new IntersectionObserver((list) => { seen = list[list.length - 1].isIntersecting; }).observe(svg);
    if (host.dataset.autoplay === "true" && !still.matches) play(true);
    if (still.addEventListener) still.addEventListener("change", () => still.matches && play(false));
  }

  mount("hypentropy-ball", build);
})();
