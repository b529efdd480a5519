/* Moving part "token-share": T tokens of equal length with correlation rho_0 pass D blocks with uniform attention on a residual
   branch of strength nu and a linear feed-forward layer. Share of the mean token p: p_0 = (1 + (T - 1) rho_0) / T, its odds
   p / (1 - p) grow by 1 + nu^2 a block. At a fixed size of the tokens the squared value gradient is proportional to p, the squared
   query gradient to (1 - p)^2. Dashed: the strength nu / sqrt(D), for a network of D blocks.
   Markup: <div class="ld-widget" data-widget="token-share"></div>; whatever stands inside is replaced.
   Optional: data-strength="1", data-tokens="16", data-correlation="0", data-depth="12".
   Pure formulas: window.learningDynamics.tokenShare. */
(function () {
  "use strict";
  const { add, set, number, power, scientific, clamp, given, box, panel, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const start = (tokens, rho) => (1 + (tokens - 1) * rho) / tokens;
  /** 1 - p after some blocks, without cancellation where p is near one. */
  function rest(p0, nu, depth) {
    return 1 / (1 + (Math.exp(depth * Math.log1p(nu * nu)) * p0) / (1 - p0));
  }
  const share = (p0, nu, depth) => 1 - rest(p0, nu, depth);
  const correlation = (p, tokens) => (tokens * p - 1) / (tokens - 1);
  /** The depth at which the correlation is one half; infinity where it never is, zero where it is from the start. */
  function half(tokens, rho, nu) {
    const [p0, p] = [start(tokens, rho), start(tokens, 0.5)];
    if (p0 >= p) return 0;
    const odds = Math.log(p / (1 - p)) - Math.log(p0 / (1 - p0));
    return nu > 0 ? odds / Math.log1p(nu * nu) : Infinity;
  }

  window.learningDynamics.tokenShare = { start, rest, share, correlation, half };

  // ---------------------------------------------------------------- picture
  const RANGE = { strength: [0, 1.5], tokens: [2, 256], correlation: [0, 0.9], depth: [1, 48] };
  const NAMES = ["strength", "tokens", "correlation", "depth"];
  const HTML = `
    <p class="ld-widget-title">What is left of the gradient of queries and values after D blocks?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="factors"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>residual strength ν <data data-quantity="strength"></data></span>
          <input type="range" name="strength" min="0" max="1.5" step="0.05"></label>
        <label class="ld-slider"><span>tokens T <data data-quantity="tokens"></data></span>
          <input type="range" name="tokens" min="2" max="256" step="1"></label>
        <label class="ld-slider"><span>correlation at the start <data data-quantity="correlation"></data></span>
          <input type="range" name="correlation" min="0" max="0.9" step="0.05"></label>
        <label class="ld-slider"><span>blocks D <data data-quantity="depth"></data></span>
          <input type="range" name="depth" min="1" max="48" step="1"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="summary"></p>
          <dl class="ld-numbers">
            <dt>share p of the mean token</dt><dd data-quantity="share"></dd>
            <dt>correlation of two tokens</dt><dd data-quantity="rho"></dd>
            <dt>factor p of the values</dt><dd data-quantity="value"></dd>
            <dt>factor (1 − p)² of the queries</dt><dd data-quantity="query"></dd>
            <dt>the same with strength ν/√D</dt><dd data-quantity="scaled"></dd>
            <dt>correlation ½ at depth</dt><dd data-quantity="half"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Factors of the squared gradients, at a fixed size of the tokens, against the depth. Green: values. Orange: queries and keys.
      Dashed: queries with the strength ν/√D.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const state = {
      strength: given(host, "strength", 1, ...RANGE.strength),
      tokens: Math.round(given(host, "tokens", 16, ...RANGE.tokens)),
      correlation: given(host, "correlation", 0, ...RANGE.correlation),
      depth: Math.round(given(host, "depth", 12, ...RANGE.depth)),
    };
    const factors = panel(find('[data-part="factors"]'), {
      label: "Factors of the squared gradients of values and queries against the depth.", tall: 320,
      x: { low: 0, high: 48, ticks: [0, 12, 24, 36, 48].map((v) => [v, String(v)]), title: "depth" },
      y: { low: 1e-10, high: 2, log: true, ticks: [-10, -8, -6, -4, -2, 0].map((k) => [10 ** k, k ? power(k) : "1"]), title: "factor" },
    });
    const values = add(factors.area, "path", { class: "curve green" });
    const queries = add(factors.area, "path", { class: "curve orange" });
    const dashed = add(factors.area, "path", { class: "curve control" });
    const upright = add(factors.area, "path", { class: "curve muted thin" });
    const here = add(factors.area, "circle", { r: 5, class: "iterate" });

    function draw() {
      const { strength, tokens, depth } = state;
      const p0 = start(tokens, state.correlation);
      const line = (f, most) => Array.from({ length: 4 * most + 1 }, (_, k) => [k / 4, f(k / 4)]);
      const query = (nu, d) => rest(p0, nu, d) ** 2;
      const gentle = strength / Math.sqrt(depth);
      set(values, { d: factors.path(line((d) => share(p0, strength, d), 48)) });
      set(queries, { d: factors.path(line((d) => query(strength, d), 48)) });
      set(dashed, { d: factors.path(line((d) => query(gentle, d), depth)) });
      set(upright, { d: factors.path([[depth, 1e-10], [depth, 2]]) });
      set(here, { cx: factors.x(depth), cy: factors.y(query(strength, depth)) });

      const p = share(p0, strength, depth);
      const at = half(tokens, state.correlation, strength);
      shown.strength.textContent = number(strength, 2);
      shown.tokens.textContent = String(tokens);
      shown.correlation.textContent = number(state.correlation, 2);
      shown.depth.textContent = String(depth);
      shown.share.textContent = number(p, 4);
      shown.rho.textContent = number(correlation(p, tokens), 4);
      shown.value.textContent = scientific(p);
      shown.query.textContent = scientific(query(strength, depth));
      shown.scaled.textContent = scientific(query(gentle, depth));
      shown.half.textContent = Number.isFinite(at) ? number(at, 2) : "never";
      shown.summary.textContent = `The odds of the mean token have grown by ${scientific((1 + strength * strength) ** depth)}.`;
      for (const name of NAMES) {
        find(`[name="${name}"]`).value = state[name];
        find(`[name="${name}"]`).setAttribute("aria-valuetext", shown[name].textContent);
      }
    }
    function layout() {
      factors.layout();
      draw();
    }
    for (const name of NAMES) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        state[name] = clamp(Number(event.target.value), ...RANGE[name]);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(find('[data-part="factors"]'), layout);
  }

  mount("token-share", build);
})();
