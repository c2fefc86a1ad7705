// The engine in a worker of its own, so that neither the page nor a hidden tab slows decoding.
// Path 10/13 to 13/13: a shell around engine.ts.
// Reports first whether this browser supports OffscreenCanvas, because a transferred canvas cannot
// be taken back.

import { Engine } from "./engine/engine";
import type { FromEngine, ToEngine } from "./engine/messages";

/**
 * The part of DedicatedWorkerGlobalScope used here; TypeScript cannot have the types of page and
 * worker at once.
 */
interface WorkerScope {
  postMessage(message: FromEngine, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToEngine>) => void) | null;
  requestAnimationFrame?: unknown;
  OffscreenCanvas?: typeof OffscreenCanvas;
  WebSocket?: unknown;
}

const scope = self as unknown as WorkerScope;

function isSupported(): boolean {
  if (scope.OffscreenCanvas === undefined || scope.WebSocket === undefined) return false;
  if (typeof scope.requestAnimationFrame !== "function") return false;
  return new scope.OffscreenCanvas(1, 1).getContext("2d") !== null;
}

const engine = new Engine((message, transfer) => scope.postMessage(message, transfer));
scope.onmessage = (event) => engine.handle(event.data);
scope.postMessage({ type: "supported", supported: isSupported() });
