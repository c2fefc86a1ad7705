// What programs of the session print: each document is received into memory, the person is asked
// about it, and the browser prints it.
// Path beside the pixels: between engine/files.ts, and printer.ts and the person.
// Knows documents and what people are told of them; never what is on their pages. Nothing is
// printed, opened or saved without the person's answer.

import type { FromEngine, ToEngine } from "../engine/messages";
import type { PrintingSide } from "../ui/entries";
import { AGAIN_MS_MAX, type FilesView, shareOf, wordsOf } from "./files";
import { Finished } from "./finished";
import { newKey } from "./keys";
import { FileEnd, type FilesCall, type Offered, type Ticket } from "./messages";
import { downloadName, isWindows, sizeOf, titleOf } from "./names";
import { isPdf, pagesOf } from "./pdf";
import { PDF_TYPE, type Printer, type PrintMethod, printMethod } from "./printer";

/** Bytes of all documents that are received or that the person is asked about: the largest one. */
const HELD_BYTES_MAX = 256 * 1024 * 1024;
/** … and their number. What is offered beyond waits in the session. */
const HELD_MAX = 8;
/**
 * 30 s: so long the session waits for the person's answer. Then it is told that the document has
 * arrived, because it takes 60 s without a message for a failure; the question stays.
 */
const ANSWER_MS_MAX = 30_000;
/** Of a larger document a person sees how far it is. */
const SHOWN_BYTES_MIN = 1024 * 1024;

/** What the button says. */
const YES: Record<PrintMethod, string> = { print: "Print", open: "Open", save: "Save" };

/** What the person sees of documents. */
export interface PrintingView extends Pick<FilesView, "show" | "fail" | "remove"> {
  /** Asks about this document; undefined: about none. */
  askToPrint(asked: { key: number; words: string; yes: string } | undefined): void;
}

export interface PrintingOptions {
  /** Of the address: "off", or nothing. */
  choice: string | null;
  view: PrintingView;
  printer: Printer;
  send(message: ToEngine): void;
  /** Shows a message to the user for a few seconds. */
  notice(words: string): void;
  /** The focus goes back to the session. */
  left(): void;
}

/** A document. */
interface Job {
  key: number;
  /** The session's number on this connection; undefined while there is none, or it was told. */
  id: number | undefined;
  identity: string;
  ticket: Ticket;
  title: string;
  path: string;
  total: number;
  /** There is no room for it; it arrives; it is looked at; the person is asked. */
  stage: "waiting" | "receiving" | "arrived" | "asked";
  parts: Blob[];
  arrived: number;
  content: Blob | undefined;
  pages: number | undefined;
  method: PrintMethod;
  /** The session knows that it has arrived, or will not be told. */
  told: boolean;
  /** Until it is told so, or has to offer it again. */
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class Printing {
  private connection = 0;
  private jobs: Job[] = [];
  private readonly finished = new Finished();
  /** The dialog is opened, or is open. */
  private prints = false;
  /** What this browser turned out not to do. */
  private method = printMethod();

  constructor(private readonly options: PrintingOptions) {
    // What the session takes for delivered is lost with the page. The rest it offers again.
    addEventListener("beforeunload", (event) => {
      if (this.jobs.some(({ told }) => told)) event.preventDefault();
    });
  }

  /** Tells the engine whether this page prints. An unknown choice prints nothing. */
  announce(): void {
    this.options.send({ type: "takePrints", prints: !this.side.isOff });
  }

  /** For the menu. */
  get side(): PrintingSide {
    const { choice } = this.options;
    return { isOff: choice !== null && choice !== "on", missing: undefined };
  }

  /** The connection was established or lost; `closed`: for good. */
  setConnection(connected: boolean, closed: boolean): void {
    const jobs = this.jobs.filter(({ told }) => !told);
    if (!connected) for (const job of jobs) job.id = undefined;
    if (!closed) return;
    for (const job of jobs)
      this.end(job, job.stage === "receiving" ? "the connection was closed" : undefined);
  }

  handle({ connection, event }: Extract<FromEngine, { type: "files" }>): void {
    switch (event.name) {
      case "connected":
        this.begin(connection);
        break;
      case "offered":
        if (event.ticket !== undefined) this.handleOffer(event, event.ticket);
        break;
      case "data": {
        const job = this.jobs.find(({ id }) => id === event.id);
        if (job === undefined || job.stage !== "receiving") break;
        const { length } = event.bytes;
        // A blob's bytes are the browser's, and not this page's, from here on.
        job.parts.push(new Blob([event.bytes]));
        job.arrived += length;
        this.call({ name: "stored", id: event.id, bytes: length }, connection);
        this.show(job);
        if (event.last) void this.look(job);
        break;
      }
      case "stopped": {
        const job = this.jobs.find(({ id }) => id === event.id);
        if (job === undefined) break;
        job.id = undefined;
        this.end(job, job.stage === "receiving" ? wordsOf(event.why) : undefined);
        break;
      }
    }
  }

  /** A session has answered on a new connection: what it was not told of it offers again. */
  private begin(connection: number): void {
    this.connection = connection;
    for (const job of this.jobs.filter(({ told }) => !told)) {
      job.id = undefined;
      clearTimeout(job.timer);
      job.timer = setTimeout(() => {
        const isReceiving = job.stage === "receiving";
        this.end(job, isReceiving ? "the session did not send the rest" : undefined);
      }, AGAIN_MS_MAX);
    }
  }

  private handleOffer({ id, identity, total, entries }: Offered, ticket: Ticket): void {
    if (this.finished.has(identity, this.connection)) {
      this.call({ name: "accept", id, accepts: "complete" });
      this.call({ name: "finish", id });
      return;
    }
    const before = this.jobs.find(
      (job) => job.identity === identity && job.id === undefined && !job.told,
    );
    if (before !== undefined) {
      clearTimeout(before.timer);
      before.id = id;
      if (before.stage === "waiting") this.call({ name: "ask", id });
      else this.accept(before, id);
      if (before.stage === "asked") this.waitForAnswer(before);
    } else {
      this.call({ name: "ask", id });
      this.jobs.push({
        key: newKey(),
        id,
        identity,
        ticket,
        title: titleOf(ticket.title),
        path: entries[0]?.path ?? "",
        total,
        stage: "waiting",
        parts: [],
        arrived: 0,
        content: undefined,
        pages: undefined,
        method: this.method,
        told: false,
        timer: undefined,
      });
    }
    this.receiveNext();
  }

  /** Receives what there is room for, in order. */
  private receiveNext(): void {
    const held = this.jobs.filter(({ stage }) => stage !== "waiting");
    let [count, bytes] = [held.length, held.reduce((sum, { total }) => sum + total, 0)];
    for (const job of this.jobs) {
      if (job.stage !== "waiting" || job.id === undefined) continue;
      count += 1;
      bytes += job.total;
      if (count > HELD_MAX || bytes > HELD_BYTES_MAX) return;
      job.stage = "receiving";
      this.accept(job, job.id);
      this.show(job);
    }
  }

  private accept(job: Job, id: number): void {
    this.call({ name: "accept", id, accepts: job.arrived > 0 ? "continue" : "begin" });
  }

  private show(job: Job): void {
    if (job.total < SHOWN_BYTES_MIN) return;
    const share = shareOf(job.arrived, job.total);
    this.options.view.show(job.key, `Receiving "${job.title}" to print it`, share, () =>
      this.refuse(job),
    );
  }

  /** All of it is there, with the right hash. */
  private async look(job: Job): Promise<void> {
    job.stage = "arrived";
    const content = new Blob(job.parts, { type: PDF_TYPE });
    job.parts = [];
    let pages: number | undefined;
    let problem: string | undefined;
    try {
      if (await isPdf(content)) pages = await pagesOf(content);
      else problem = "it is not PDF";
    } catch {
      // The browser had no room for it.
      problem = "this browser cannot keep it";
    }
    if (!this.jobs.includes(job)) return;
    if (problem !== undefined) {
      if (job.id !== undefined) this.call({ name: "stop", id: job.id, why: FileEnd.Failed });
      this.end(job, problem);
      return;
    }
    this.options.view.remove(job.key);
    [job.content, job.pages, job.stage] = [content, pages, "asked"];
    if (job.id !== undefined) this.waitForAnswer(job);
    this.ask();
  }

  private waitForAnswer(job: Job): void {
    clearTimeout(job.timer);
    job.timer = setTimeout(() => {
      if (job.id !== undefined) this.tellArrived(job);
    }, ANSWER_MS_MAX);
  }

  /** The session is told that the document is here, now or when it offers it again. */
  private tellArrived(job: Job): void {
    if (job.told) return;
    clearTimeout(job.timer);
    // No connection has the number 0.
    this.finished.add(job.identity, job.id === undefined ? 0 : this.connection);
    if (job.id !== undefined) this.call({ name: "finish", id: job.id });
    [job.told, job.id] = [true, undefined];
  }

  // The person

  /** Their answer to the question. Called in their gesture. */
  answer(prints: boolean): void {
    const job = this.asked;
    if (job?.content === undefined) return;
    if (!prints) {
      this.refuse(job);
      return;
    }
    this.tellArrived(job);
    const { content, title } = job;
    switch (job.method) {
      case "print":
        void this.print(job, content);
        return;
      case "open":
        this.options.printer.open(content);
        break;
      case "save": {
        const name = downloadName(job.path, isWindows());
        this.options.printer.save(name, content);
        this.options.notice(`Saved "${title}" as ${name}, in the browser's downloads`);
        break;
      }
    }
    this.end(job, undefined);
  }

  private async print(job: Job, content: Blob): Promise<void> {
    this.prints = true;
    this.ask();
    this.options.notice(`Opening the browser's print dialog for "${job.title}"`);
    try {
      await this.options.printer.print(content);
      this.end(job, undefined);
    } catch {
      // Its settings, or a viewer of PDF from elsewhere: it stays so for later documents.
      this.method = "save";
      for (const other of this.jobs) if (other.method === "print") other.method = "save";
      // Another question than the one that was answered.
      job.key = newKey();
    }
    this.prints = false;
    this.options.left();
    this.ask();
  }

  private refuse(job: Job): void {
    if (job.id !== undefined) this.call({ name: "stop", id: job.id, why: FileEnd.Cancelled });
    // The session offers it again, and is then told that it is done with.
    else if (!job.told) this.finished.add(job.identity, 0);
    this.end(job, undefined);
    this.options.notice(`Not printed: "${job.title}"`);
  }

  private get asked(): Job | undefined {
    return this.prints ? undefined : this.jobs.find(({ stage }) => stage === "asked");
  }

  private ask(): void {
    const job = this.asked;
    this.options.view.askToPrint(
      job && { key: job.key, words: questionOf(job), yes: YES[job.method] },
    );
  }

  /** Without a reason it is none that a person is told. */
  private end(job: Job, reason: string | undefined): void {
    clearTimeout(job.timer);
    this.jobs = this.jobs.filter((other) => other !== job);
    if (reason === undefined) this.options.view.remove(job.key);
    else this.options.view.fail(job.key, `Not printed: "${job.title}": ${reason}`);
    this.receiveNext();
    this.ask();
  }

  private call(call: FilesCall, connection = this.connection): void {
    this.options.send({ type: "files", connection, call });
  }
}

/** What the person is asked, without the answers; the first sentence as in the native viewer. */
function questionOf({ title, total, pages, ticket, method }: Job): string {
  const { copies, sides, colour } = ticket;
  const wanted = [
    copies > 1 ? `${copies} copies` : "",
    sides === "one" ? "" : `both sides over the ${sides} edge`,
    colour ? "" : "grey",
  ].filter((words) => words !== "");
  const pageCount = pages === undefined ? [] : [pages === 1 ? "1 page" : `${pages} pages`];
  const details = [...pageCount, sizeOf(total), ...wanted].join(", ");
  const question = `A program of the session prints "${title}" (${details}).`;
  if (method === "save")
    return `${question} This browser cannot print PDF: save it, and print the file.`;
  // No page can tell the browser's dialog.
  return wanted.length > 0 ? `${question} Choose that in the browser's dialog too.` : question;
}
