// The engine in a worker of its own, so that neither the page nor its hidden tab slows decoding.
// Path 10/13 to 13/13: a shell round engine.ts.
// Says first whether this browser can do it, for a canvas handed over cannot be taken back.

import { Engine } from "./engine";
import type { FromEngine, ToEngine } from "./messages";

/** The part of DedicatedWorkerGlobalScope used here; TypeScript cannot have the page's and the worker's types at once. */
interface WorkerScope {
  postMessage(message: FromEngine, transfer?: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToEngine>) => void) | null;
  requestAnimationFrame?: unknown;
  OffscreenCanvas?: typeof OffscreenCanvas;
  WebSocket?: unknown;
}

const scope = self as unknown as WorkerScope;

function able(): boolean {
  if (scope.OffscreenCanvas === undefined || scope.WebSocket === undefined) return false;
  if (typeof scope.requestAnimationFrame !== "function") return false;
  return new scope.OffscreenCanvas(1, 1).getContext("2d") !== null;
}

const engine = new Engine((message, transfer) => scope.postMessage(message, transfer));
scope.onmessage = (event) => engine.handle(event.data);
scope.postMessage({ type: "able", able: able() });
