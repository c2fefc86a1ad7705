// Puts damaged parts of the screen on a canvas, byte for byte.
// Path 13/13: from decoder.ts (the framebuffer in WASM memory), to the user's screen.
// Knows pixels and canvases; never when to present (presentation.ts), nor where on the page
// (main.ts).

import type { Decoder } from "../engine/decoder";
import type { PresenterKind } from "../engine/messages";

type Canvas = OffscreenCanvas | HTMLCanvasElement;

export interface Presenter {
  readonly kind: PresenterKind;
  /** The screen has a new size; the canvas is cleared. */
  resize(width: number, height: number): void;
  /** Shows these rectangles (x, y, width, height of each). */
  present(decoder: Decoder, damage: Int32Array): void;
}

/**
 * WebGL2 on a GPU, else 2D: software WebGL costs 15 ms a frame at 1280x720, putImageData of the
 * damage less than 1 ms.
 */
export function choosePresenter(
  canvas: Canvas,
  only: PresenterKind | undefined,
  lost: () => void,
): Presenter {
  if (only === "webgl2" || (only === undefined && hasGpu())) {
    const gl = canvas.getContext("webgl2", {
      alpha: false,
      antialias: false,
      depth: false,
      stencil: false,
      // Only damage is drawn, over the last frame.
      preserveDrawingBuffer: true,
      desynchronized: true,
      powerPreference: "low-power",
    }) as WebGL2RenderingContext | null;
    if (gl) return new WebGlPresenter(canvas, gl, lost);
    if (only === "webgl2") throw new Error("this browser has no WebGL2");
  }
  const context = canvas.getContext("2d", {
    alpha: false,
    desynchronized: true,
    colorSpace: "srgb",
  }) as CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D | null;
  if (!context) throw new Error("this browser has no 2D canvas");
  return new CanvasPresenter(canvas, context);
}

/**
 * Tested on a canvas of its own, because a canvas with a WebGL context gives no other. Not every
 * browser calls software rendering a "performance caveat", so the renderer's name is checked too.
 */
function hasGpu(): boolean {
  const canvas =
    typeof OffscreenCanvas === "function"
      ? new OffscreenCanvas(1, 1)
      : document.createElement("canvas");
  const gl = canvas.getContext("webgl2", {
    failIfMajorPerformanceCaveat: true,
  }) as WebGL2RenderingContext | null;
  if (!gl) return false;
  const named = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|swrast|software|basic render/i.test(name);
}

class CanvasPresenter implements Presenter {
  readonly kind = "2d";

  constructor(
    private readonly canvas: Canvas,
    private readonly context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D,
  ) {}

  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
  }

  present(decoder: Decoder, damage: Int32Array): void {
    for (let i = 0; i + 3 < damage.length; i += 4) {
      const [x = 0, y = 0, width = 0, height = 0] = damage.subarray(i, i + 4);
      const rgba = decoder.rgba(x, y, width, height) as Uint8ClampedArray<ArrayBuffer>;
      this.context.putImageData(new ImageData(rgba, width, height), x, y);
    }
  }
}

const VERTEX = `#version 300 es
void main() { // one triangle that covers the canvas
  gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0);
}`;

// texelFetch reads one texel without filtering, so each byte arrives unchanged; memory has blue
// first.
const FRAGMENT = `#version 300 es
precision highp float;
uniform highp sampler2D screen;
uniform int height;
out vec4 color;
void main() {
  ivec2 at = ivec2(int(gl_FragCoord.x), height - 1 - int(gl_FragCoord.y));
  color = vec4(texelFetch(screen, at, 0).bgr, 1.0);
}`;

class WebGlPresenter implements Presenter {
  readonly kind = "webgl2";
  private height = 0;
  private heightAt: WebGLUniformLocation | null = null;

  constructor(
    private readonly canvas: Canvas,
    private readonly gl: WebGL2RenderingContext,
    lost: () => void,
  ) {
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      this.resize(this.canvas.width, this.canvas.height);
      lost();
    });
    this.prepare();
  }

  resize(width: number, height: number): void {
    const gl = this.gl;
    this.canvas.width = width;
    this.canvas.height = height;
    this.height = height;
    gl.viewport(0, 0, width, height);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, null);
    gl.uniform1i(this.heightAt, height);
  }

  present(decoder: Decoder, damage: Int32Array): void {
    const gl = this.gl;
    if (damage.length === 0 || gl.isContextLost()) return;
    const screen = decoder.screen();
    gl.pixelStorei(gl.UNPACK_ROW_LENGTH, decoder.width);
    let [x1, y1, x2, y2] = [Infinity, Infinity, 0, 0];
    for (let i = 0; i + 3 < damage.length; i += 4) {
      const [x = 0, y = 0, width = 0, height = 0] = damage.subarray(i, i + 4);
      gl.pixelStorei(gl.UNPACK_SKIP_PIXELS, x);
      gl.pixelStorei(gl.UNPACK_SKIP_ROWS, y);
      gl.texSubImage2D(gl.TEXTURE_2D, 0, x, y, width, height, gl.RGBA, gl.UNSIGNED_BYTE, screen, 0);
      [x1, y1] = [Math.min(x1, x), Math.min(y1, y)];
      [x2, y2] = [Math.max(x2, x + width), Math.max(y2, y + height)];
    }
    gl.scissor(x1, this.height - y2, x2 - x1, y2 - y1);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  private prepare(): void {
    const gl = this.gl;
    const program = gl.createProgram();
    for (const [kind, source] of [
      [gl.VERTEX_SHADER, VERTEX],
      [gl.FRAGMENT_SHADER, FRAGMENT],
    ] as const) {
      const shader = gl.createShader(kind);
      if (!shader) return; // lost again; the "restored" event calls this again
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(`WebGL: ${gl.getProgramInfoLog(program) ?? "the program does not link"}`);
    }
    gl.useProgram(program);
    this.heightAt = gl.getUniformLocation(program, "height");
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.enable(gl.SCISSOR_TEST);
    gl.disable(gl.BLEND);
    gl.disable(gl.DITHER);
  }
}
