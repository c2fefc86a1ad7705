// What a person prefers on all their devices, below the list of their desktops.
// Beside the path: from account.ts, to the server, which keeps it with the person's own files;
// their sessions apply it.
// Knows choices; never a login.

import { say } from "./words";

export interface PreferencesOptions {
  /** Of the choices. */
  element: HTMLElement;
  opening: HTMLSelectElement;
  clipboard: HTMLSelectElement;
  scale: HTMLSelectElement;
  layout: HTMLInputElement;
  /** Asks the server; undefined without a login, which the person is told. */
  request(path: string, method?: string, body?: string): Promise<Response | undefined>;
  /** Tells the person what was done, or what is wrong. */
  done(words: string): void;
  failed(words: string): void;
}

/** As the server has it; what is missing is as on each device. */
interface Kept {
  opening: string;
  clipboard?: string;
  layout?: string;
  scale?: number;
}

export class Preferences {
  constructor(private readonly options: PreferencesOptions) {
    const { opening, clipboard, scale, layout } = options;
    const keep = (element: HTMLElement, change: () => object) =>
      element.addEventListener("change", () => void this.keep(change()));
    keep(opening, () => ({ opening: opening.value }));
    keep(clipboard, () => ({ clipboard: clipboard.value }));
    keep(scale, () => ({ scale: Number(scale.value) }));
    keep(layout, () => ({ layout: layout.value.trim() }));
  }

  /** Asks what was chosen; a broker of an older version knows nothing of it. */
  async load(): Promise<void> {
    const response = await this.options.request("preferences").catch(() => undefined);
    if (!response?.ok) return;
    this.show((await response.json()) as Kept);
    this.options.element.hidden = false;
  }

  private show(kept: Kept): void {
    const { opening, clipboard, scale, layout } = this.options;
    opening.value = kept.opening;
    clipboard.value = kept.clipboard ?? "both";
    scale.value = String(kept.scale ?? 0);
    layout.value = kept.layout ?? "";
  }

  private async keep(change: object): Promise<void> {
    const { request, done, failed } = this.options;
    try {
      const response = await request("preferences", "POST", JSON.stringify(change));
      if (response === undefined) return;
      if (response.ok) {
        this.show((await response.json()) as Kept);
        failed("");
        return done(say("kept"));
      }
      failed(await response.text());
    } catch (reason) {
      failed(say("unreachable", reason instanceof Error ? reason.message : String(reason)));
    }
    // What is shown is what is kept, and not what could not be.
    await this.load();
  }
}
