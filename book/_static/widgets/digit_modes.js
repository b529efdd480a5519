/* Moving part "digit-modes": a digit of MNIST, 784 pixels u_0, ..., u_783 in a row, read back from K states of a linear recurrence with the
   eigenvalues exp(i pi (2k - 1) / 784), k = 1, ..., K ("half roots"), kept with so many significant bits. The state after the last pixel is
   x_k = sum_l lambda_k^(783 - l) u_l; the rows of the memory matrix are orthogonal, of squared length 392, so that the image of least norm
   with this state is u_l = (1 / 392) sum_k Re(conj(lambda_k)^(783 - l) x_k).
   Markup: <div class="ld-widget" data-widget="digit-modes"></div>; whatever stands inside is replaced.
   Optional: data-modes="32", data-bits="53" (start state). Formulas: window.learningDynamics.digitModes. */
(function () {
  "use strict";
  const { add, set, number, scientific, given, box, follow, mount } = window.learningDynamics.drawing;

  // ---------------------------------------------------------------- formulas
  const SIDE = 28;
  const T = SIDE * SIDE;
  const HALF = T / 2;
  const PACKED =
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" +
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACYraf/9/f39/a4GAAAA" +
    "AAAAAAAAAAAAAAAAK4vg4vz9/Pz8/Pz8ng4AAAAAAAAAAAAAAAAAALL8/Pz8/fz8/Pz8/Pw7AAAAAAAAAAAAAAAAAABt/PzmhIWEhL38/Pz8Ow" +
    "AAAAAAAAAAAAAAAAAABB0dGAAAAAAO4vz8rAcAAAAAAAAAAAAAAAAAAAAAAAAAAAAAVfP8/JAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWL38/PwO" +
    "AAAAAAAAAAAAAAAAAAAAAAAAAABb1Pf8/PzMCQAAAAAAAAAAAAAAAAAAACB9wcHB/fz8/O5mHAAAAAAAAAAAAAAAAAAAAC3e/Pz8/P38/PyxAA" +
    "AAAAAAAAAAAAAAAAAAAAAt3/39/f3//f39/UoAAAAAAAAAAAAAAAAAAAAAAB97NCwsLCyP/PxKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD/z8" +
    "SgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAFb8/EoAAAAAAAAAAAAAAAAAAAVLCQAAAAAAAGLy/PxKAAAAAAAAAAAAAAAAAD23/B0AAAAAElzv/P" +
    "zzQQAAAAAAAAAAAAAAAADQ/PyThoaGhsv9/Py8UwAAAAAAAAAAAAAAAAAA0Pz8/Pz8/Pz8/eaZCAAAAAAAAAAAAAAAAAAAADGd/Pz8/PzZz5It" +
    "AAAAAAAAAAAAAAAAAAAAAAAAB2fr/KxnGAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" +
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==";
  const DIGIT = Array.from(atob(PACKED), (c) => c.charCodeAt(0) / 255);
  const COSINE = Array.from({ length: 2 * T }, (_, k) => Math.cos((Math.PI * k) / T));
  /** cos and sin of pi (2k - 1) m / T. */
  const turn = (k, m) => ((2 * k - 1) * m) % (2 * T);
  const cosine = (a) => COSINE[a];
  const sine = (a) => COSINE[(a + 2 * T - HALF) % (2 * T)];

  /** A number with so many significant bits. */
  function rounded(x, bits) {
    if (x === 0 || bits >= 53) return x;
    const unit = 2 ** (Math.floor(Math.log2(Math.abs(x))) - bits + 1);
    return Math.round(x / unit) * unit;
  }
  /** Real and imaginary parts of the lowest K states. */
  function states(modes) {
    return Array.from({ length: modes }, (_, i) => {
      let [re, im] = [0, 0];
      for (let l = 0; l < T; l += 1) {
        if (DIGIT[l] === 0) continue;
        const a = turn(i + 1, T - 1 - l);
        re += cosine(a) * DIGIT[l];
        im += sine(a) * DIGIT[l];
      }
      return [re, im];
    });
  }
  const ALL = states(HALF);
  function read(modes, bits) {
    const image = new Array(T).fill(0);
    for (let i = 0; i < modes; i += 1) {
      const [re, im] = ALL[i].map((v) => rounded(v, bits) / HALF);
      for (let l = 0; l < T; l += 1) {
        const a = turn(i + 1, T - 1 - l);
        image[l] += cosine(a) * re + sine(a) * im;
      }
    }
    return image;
  }
  const size = (v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
  const error = (image) => size(image.map((v, l) => v - DIGIT[l])) / size(DIGIT);

  window.learningDynamics.digitModes = { digit: DIGIT, read, error };

  // ---------------------------------------------------------------- picture
  const BITS = [2, 4, 8, 24, 53];
  const HTML = `
    <p class="ld-widget-title">How many modes does a 3 need?</p>
    <div class="ld-widget-row">
      <div class="ld-widget-picture"><div data-part="picture"></div></div>
      <div class="ld-widget-panel">
        <label class="ld-slider"><span>modes K <data data-quantity="modes"></data></span>
          <input type="range" name="modes" min="1" max="392" step="1"></label>
        <label class="ld-slider"><span>significant bits <data data-quantity="bits"></data></span>
          <input type="range" name="bits" min="0" max="4" step="1"></label>
        <div data-part="readout" role="status" aria-live="polite" aria-atomic="true">
          <p class="ld-readout" data-quantity="verdict"></p>
          <dl class="ld-numbers">
            <dt>real numbers kept, 2K</dt><dd data-quantity="kept"></dd>
            <dt>bits kept in all</dt><dd data-quantity="total"></dd>
            <dt>relative error</dt><dd data-quantity="error"></dd>
          </dl>
        </div>
      </div>
    </div>
    <p class="ld-widget-note">Left: the digit, 784 pixels. Right: read back from the K half roots of lowest angle. Pixels below 0 and above 1
      are drawn as 0 and 1.</p>`;

  function build(host) {
    const { node, find, shown } = box(HTML);
    const chosen = { modes: Math.round(given(host, "modes", 32, 1, HALF)), bits: given(host, "bits", 53, 2, 53) };
    if (!BITS.includes(chosen.bits)) chosen.bits = 53;
    const picture = find('[data-part="picture"]');
    const svg = add(picture, "svg", { role: "img", class: "heat", "aria-label": "The digit, and the digit that is read back from its states." });
    const [left, right] = [0, SIDE + 2].map((shift) => Array.from({ length: T }, (_, l) =>
      add(svg, "rect", { x: shift + (l % SIDE), y: Math.floor(l / SIDE), width: 1.02, height: 1.02 })));
    set(svg, { viewBox: `0 0 ${2 * SIDE + 2} ${SIDE}` });
    const paint = (cells, image) => image.forEach((v, l) => {
      const grey = Math.round(255 * Math.min(Math.max(v, 0), 1));
      set(cells[l], { fill: `rgb(${grey} ${grey} ${grey})` });
    });
    paint(left, DIGIT);

    function draw() {
      const image = read(chosen.modes, chosen.bits);
      const off = error(image);
      paint(right, image);
      shown.modes.textContent = String(chosen.modes);
      shown.bits.textContent = String(chosen.bits);
      shown.kept.textContent = String(2 * chosen.modes);
      shown.total.textContent = String(2 * chosen.modes * chosen.bits);
      shown.error.textContent = off < 1e-12 ? "below 10⁻¹²" : scientific(off);
      shown.verdict.textContent = chosen.modes === HALF
        ? "All 392 modes: only the rounding is left."
        : `${number((100 * chosen.modes) / HALF, 0)} % of the modes: the finest strokes along the rows are lost.`;
      find('[name="modes"]').value = chosen.modes;
      find('[name="bits"]').value = BITS.indexOf(chosen.bits);
      find('[name="bits"]').setAttribute("aria-valuetext", `${chosen.bits} bits`);
    }
    for (const name of ["modes", "bits"]) {
      find(`[name="${name}"]`).addEventListener("input", (event) => {
        chosen[name] = name === "bits" ? BITS[Number(event.target.value)] : Number(event.target.value);
        draw();
      });
    }
    host.replaceChildren(node);
    follow(picture, () => {
      const width = Math.max(250, picture.clientWidth || 420);
      set(svg, { height: (Math.min(width, 520) * SIDE) / (2 * SIDE + 2) });
    });
    draw();
  }

  mount("digit-modes", build);
})();
