// Printing: what a program of the session prints reaches the browser's own printing after the
// question, and not without; what this browser cannot print it opens or saves.
// The page against a scripted session, then real sessions with `lp`, in Chromium and Firefox. The
// browser shows each document in its frame, and no dialog opens: the call that would open it is
// recorded.
// Needs what browser.test.mjs needs, firefox-esr, libreoffice-writer and cups-client.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { promisify } from "node:util";
import { barriers } from "./broker.mjs";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { message } from "./fake-session.mjs";
import { Firefox } from "./firefox.mjs";
import { load } from "./modules.mjs";
import { agreeWhenAsked, isConnected, openPage } from "./opened.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000 }, body);

const browser = chromiumForTests();
/** Of the viewer's hello. */
const [CAP_FILES, CAP_PRINTS] = [1 << 12, 1 << 23];
/** Numbers of answers and ends. */
const [YES, ASKING, POLICY, TOO_LARGE] = [1, 2, 3, 5];
const [DONE, CANCELLED, FAILED] = [0, 1, 4];
const DOCUMENT_BYTES_MAX = 256 * 1024 * 1024;

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** A PDF with empty pages, and `more` bytes of a comment. */
function pdf(pages, more = 0) {
  const kids = Array.from({ length: pages }, (_, at) => `${at + 3} 0 R`).join(" ");
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${kids}] /Count ${pages} >>`,
    ...Array(pages).fill("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 420 595] >>"),
  ];
  let text = `%PDF-1.4\n%${".".repeat(more)}\n`;
  const offsets = objects.map((object, at) => {
    const offset = text.length;
    text += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(offset).padStart(10, "0")} 00000 n \n`;
  });
  const size = objects.length + 1;
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${offsets.join("")}`;
  const trailer = `trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`;
  return Buffer.from(text + table + trailer);
}

/**
 * Records the documents that the page gives the browser, and the calls that would open the
 * browser's dialog.
 */
function recorded() {
  if (window !== window.top) return;
  window.documents = [];
  window.prints = [];
  const { createObjectURL, revokeObjectURL } = URL;
  URL.createObjectURL = (blob) => {
    const url = createObjectURL.call(URL, blob);
    if (blob.type === "application/pdf") window.documents.push({ url, blob, isReleased: false });
    return url;
  };
  URL.revokeObjectURL = (url) => {
    for (const one of window.documents) one.isReleased ||= one.url === url;
    revokeObjectURL.call(URL, url);
  };
  const { get } = Object.getOwnPropertyDescriptor(HTMLIFrameElement.prototype, "contentWindow");
  Object.defineProperty(HTMLIFrameElement.prototype, "contentWindow", {
    get() {
      const shown = get.call(this);
      const print = () => {
        // The browser throws here if the page may not print what is shown.
        if (typeof shown.print !== "function") throw new Error("it cannot be printed");
        window.prints.push(this.src);
      };
      return { print };
    },
  });
}

function withoutViewer() {
  Object.defineProperty(Navigator.prototype, "pdfViewerEnabled", { get: () => false });
}

/** As where the browser shows something else in place of the document. */
function withBrokenFrames() {
  if (window !== window.top) return;
  const print = () => {
    throw new DOMException("Blocked a frame", "SecurityError");
  };
  Object.defineProperty(HTMLIFrameElement.prototype, "contentWindow", {
    get: () => ({ print }),
  });
}

async function greet(page, viewer) {
  viewer.send(message.hello("test session", 0), message.geometry(1, 400, 300));
  viewer.send(message.update(1, 1, []));
  await page.evaluate(() => window.thinc.quiet());
}

async function opened(t, options = {}) {
  const found = await openPage(t, browser, { script: recorded, ...options });
  await greet(found.page, found.viewer);
  return found;
}

/** Offers a document, and sends it once it is accepted. */
async function send(viewer, id, content, ticket, path = "Report.pdf") {
  viewer.send(message.printOffer(id, path, content.length, ticket));
  await answerTo(viewer, id, YES);
  viewer.send(message.fileData(id, 0, content));
}

const answerTo = (viewer, id, answer) =>
  viewer.receive((m) => m.kind === "fileAnswer" && m.id === id && m.answer === answer);
const endOf = (viewer, id) => viewer.receive((m) => m.kind === "fileEnd" && m.id === id);
const hasEnded = (viewer, id) => viewer.received.some((m) => m.kind === "fileEnd" && m.id === id);
const noticeSays = (page, words) => page.locator("#notice").filter({ hasText: words }).waitFor();
const listSays = (page, words) => page.locator("#files-list").filter({ hasText: words }).waitFor();
const asks = (page, words) => page.locator("#files-words").filter({ hasText: words }).waitFor();
const button = (page, name) =>
  page.locator("#files-question").getByRole("button", { name, exact: true });
const focused = (page) => page.evaluate(() => document.activeElement?.id);
const printed = (page, count) =>
  page.waitForFunction((wanted) => window.prints.length === wanted, count);

/** The bytes of the nth document that the browser was given. */
async function documentOf(page, nth) {
  const base64 = await page.evaluate(async (at) => {
    const bytes = new Uint8Array(await window.documents[at].blob.arrayBuffer());
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  }, nth);
  return Buffer.from(base64, "base64");
}

test("pages are counted where a document says how many there are", async () => {
  const { countPages } = await load("files/pdf.ts");
  const text = (bytes) => bytes.toString("latin1");
  assert.equal(countPages(text(pdf(1))), 1);
  assert.equal(countPages(text(pdf(230))), 230);
  assert.equal(countPages(text(pdf(3)).replaceAll("\n", "\r")), 3);
  // An update appends newer versions of objects.
  const update = "\n2 0 obj\n<< /Type /Pages /Kids [3 0 R 9 0 R] /Count 2 >>\nendobj\n";
  const trailer = "trailer\n<< /Size 10 /Root 1 0 R /Prev 9 >>\n%%EOF\n";
  assert.equal(countPages(text(pdf(1)) + update + trailer), 2);
  for (const unknown of [
    "",
    "%PDF-1.4",
    "%PDF-1.4\ntrailer << /Root >>",
    "%PDF-1.4\ntrailer << /Root 1 0 R >>",
    // The catalog is compressed.
    "%PDF-1.5\n7 0 obj\n<< /Type /XRef /Root 1 0 R >>\nstream",
    // It refers to itself, or has no end.
    "%PDF-1.4\n1 0 obj\n<< /Pages 1 0 R >>\nendobj\ntrailer << /Root 1 0 R >>",
    "%PDF-1.4\n1 0 obj\n<< /Pages 1 0 R /Count 3 >>\ntrailer << /Root 1 0 R >>",
    text(pdf(1)).replace("/Count 1", "/Count 0"),
    text(pdf(1)).replace("/Count 1", "/Count 999999"),
    text(pdf(1)).replace("/Count 1", "/Count 1000000000"),
  ])
    assert.equal(countPages(unknown), undefined, unknown);
});

test("titles are shown as one line that says nothing else", async () => {
  const { titleOf } = await load("files/names.ts");
  for (const [title, shown] of [
    ["Report", "Report"],
    ["../<b>Report</b>", "../<b>Report</b>"],
    [" \u202e\n\t ", "Untitled"],
    ["a\u2028b\u0007c", "a b c"],
    ["é".repeat(100), `${"é".repeat(80)}…`],
  ])
    assert.equal(titleOf(title), shown);
});

test("a document is printed after the answer, by keyboard too", async (t) => {
  const { page, viewer } = await opened(t);
  assert.ok(await page.evaluate(() => navigator.pdfViewerEnabled), "this Chromium shows PDF");
  const hello = await viewer.receive((m) => m.kind === "hello");
  assert.equal(hello.caps & CAP_PRINTS, CAP_PRINTS);
  const content = pdf(3, 40_000);
  await send(viewer, 1, content, { title: "Q3 <i>report</i>", copies: 2, sides: 1, colour: 0 });
  await answerTo(viewer, 1, ASKING);
  const details = "3 pages, 41 kB, 2 copies, both sides over the long edge, grey";
  await asks(
    page,
    `A program of the session prints "Q3 <i>report</i>" (${details}). ` +
      "Choose that in the browser's dialog too.",
  );
  assert.deepEqual(await barriers(page, "#files"), []);
  // Keys go on to the session; the question is reached from the menu.
  assert.equal(await focused(page), "keys");
  await button(page, "Print").and(page.locator(":enabled")).waitFor();
  assert.deepEqual(await page.evaluate(() => [window.documents, window.prints]), [[], []]);
  assert.equal(await page.locator("iframe").count(), 0);
  assert.ok(!hasEnded(viewer, 1), "the session waits for the person");
  await page.keyboard.press("Control+Alt+m");
  for (let tabs = 0; (await focused(page)) !== "files-refuse"; tabs += 1) {
    assert.ok(tabs < 30, "the question is reached by Tab");
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "files-save");
  await page.keyboard.press("Enter");
  await printed(page, 1);
  assert.equal((await endOf(viewer, 1)).why, DONE);
  assert.equal(sha256(await documentOf(page, 0)), sha256(content));
  const [frame, document] = await page.evaluate(() => [window.prints[0], window.documents[0].url]);
  assert.equal(frame, document);
  assert.ok(await page.locator("#files").isHidden());
  await page.waitForFunction(() => document.activeElement?.id === "keys");
  // Among them would be that the page's policy forbids the frame, or the browser's viewer in it.
  assert.deepEqual(page.problems, []);
});

test("nothing is printed that was refused, withdrawn, damaged or is no PDF", async (t) => {
  const { page, viewer } = await opened(t);
  const content = pdf(1);
  // An answer in the moment in which the question appears was meant for the session.
  await agreeWhenAsked(page);
  await send(viewer, 1, content, { title: "unwanted" });
  await asks(page, '"unwanted" (1 page, ');
  assert.ok(await page.evaluate(() => window.agreed));
  await button(page, "Refuse").and(page.locator(":enabled")).waitFor();
  await page.keyboard.press("Control+Alt+x");
  assert.equal((await endOf(viewer, 1)).why, CANCELLED);
  await noticeSays(page, 'Not printed: "unwanted"');
  assert.ok(await page.locator("#files").isHidden());
  await send(viewer, 2, content, { title: "withdrawn" });
  await asks(page, "withdrawn");
  viewer.send(message.fileEnd(2, false, CANCELLED));
  await page.locator("#files").waitFor({ state: "hidden" });
  await send(viewer, 3, Buffer.from("<script>alert(1)</script>"), { title: "hostile" });
  assert.equal((await endOf(viewer, 3)).why, FAILED);
  await listSays(page, 'Not printed: "hostile": it is not PDF');
  await page.locator("#files-list").getByRole("button", { name: "Close" }).click();
  viewer.send(message.printOffer(4, "Report.pdf", content.length, { title: "damaged" }));
  await answerTo(viewer, 4, YES);
  const damaged = message.fileData(4, 0, content);
  damaged[damaged.length - 1] ^= 1;
  viewer.send(damaged);
  await listSays(page, 'Not printed: "damaged": what arrived was damaged');
  await page.locator("#files-list").getByRole("button", { name: "Close" }).click();
  viewer.send(message.printOffer(5, "Report.pdf", DOCUMENT_BYTES_MAX + 1));
  assert.deepEqual((await answerTo(viewer, 5, TOO_LARGE)).more, [DOCUMENT_BYTES_MAX]);
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(await page.locator("#files").isHidden());
  assert.deepEqual(await page.evaluate(() => [window.documents, window.prints]), [[], []]);
  assert.deepEqual(page.problems, []);
});

test("documents and files are asked about one after the other", async (t) => {
  const { page, viewer } = await opened(t);
  await send(viewer, 1, pdf(1), { title: "first" });
  await asks(page, "first");
  viewer.send(message.fileOffer(2, [["notes.txt", 5]]));
  await answerTo(viewer, 2, ASKING);
  await send(viewer, 3, pdf(2), { title: "second" });
  for (const [id, words, yes] of [
    [1, '"first"', "Print"],
    [2, "The session sends notes.txt", "Save"],
    [3, '"second" (2 pages', "Print"],
  ]) {
    await asks(page, words);
    await button(page, yes).and(page.locator(":enabled")).waitFor();
    await page.keyboard.press("Control+Alt+y");
    if (id === 2) {
      await answerTo(viewer, 2, YES);
      viewer.send(message.fileData(2, 0, Buffer.from("notes")));
    }
    assert.equal((await endOf(viewer, id)).why, DONE, words);
    if (id === 1) await printed(page, 1);
  }
  await printed(page, 2);
  // One document at a time is kept for the browser.
  const released = await page.evaluate(() => window.documents.map((one) => one.isReleased));
  assert.deepEqual(released, [true, false]);
  assert.equal(await page.locator("iframe").count(), 1);
  assert.deepEqual(page.problems, []);
});

test("what there is no room for waits in the session", async (t) => {
  const { page, viewer } = await opened(t);
  const title = (name) => ({ title: name });
  viewer.send(message.printOffer(1, "a.pdf", 200_000_000, title("large")));
  await answerTo(viewer, 1, YES);
  viewer.send(message.printOffer(2, "b.pdf", 100_000_000, title("second")));
  await answerTo(viewer, 2, ASKING);
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(
    !viewer.received.some((m) => m.kind === "fileAnswer" && m.id === 2 && m.answer === YES),
  );
  await listSays(page, 'Receiving "large" to print it');
  await page.locator("#files-list").getByRole("button", { name: "Cancel" }).click();
  assert.equal((await endOf(viewer, 1)).why, CANCELLED);
  await answerTo(viewer, 2, YES);
  await listSays(page, 'Receiving "second" to print it');
  assert.deepEqual(page.problems, []);
});

test("a session is told in time, and the question stays", async (t) => {
  const { page, viewer } = await opened(t);
  await send(viewer, 1, pdf(1));
  await asks(page, '"Report"');
  // 30 s: half of what it waits.
  assert.equal((await endOf(viewer, 1)).why, DONE);
  await asks(page, '"Report"');
  assert.deepEqual(await page.evaluate(() => window.prints), []);
  await button(page, "Print").click();
  await printed(page, 1);
  assert.equal(viewer.received.filter((m) => m.kind === "fileEnd").length, 1);
  assert.deepEqual(page.problems, []);
});

for (const query of ["", "?thread=page"])
  test(`a document goes on over the next connection${query}`, async (t) => {
    const { session, page, viewer } = await opened(t, { query });
    const content = pdf(2, 300_000);
    const offer = (id) => message.printOffer(id, "Report.pdf", content.length);
    viewer.send(offer(7));
    await answerTo(viewer, 7, YES);
    viewer.send(message.fileData(7, 0, content, { until: 100_000 }));
    await viewer.receive((m) => m.kind === "fileTaken" && m.id === 7 && m.bytes > 100_000);
    viewer.socket.destroy();
    const next = await session.viewer(1);
    await greet(page, next);
    next.send(offer(1));
    assert.deepEqual((await answerTo(next, 1, YES)).more, [0, 100_000], "where it stopped");
    next.send(message.fileData(1, 0, content, { offset: 100_000 }));
    await asks(page, '"Report" (2 pages, 301 kB)');
    // The connection is lost while the person reads the question.
    next.socket.destroy();
    const third = await session.viewer(2);
    await greet(page, third);
    third.send(offer(1));
    assert.deepEqual((await answerTo(third, 1, YES)).more, [1, 0], "all of it is here");
    await button(page, "Print").click();
    await printed(page, 1);
    assert.equal((await endOf(third, 1)).why, DONE);
    assert.equal(sha256(await documentOf(page, 0)), sha256(content));
    // A session that has not learned of the end offers the same again: it is printed once.
    third.socket.destroy();
    const last = await session.viewer(3);
    await greet(page, last);
    last.send(offer(1));
    assert.equal((await endOf(last, 1)).why, DONE);
    assert.ok(await page.locator("#files").isHidden());
    assert.deepEqual(page.problems, []);
    // Nor is the person asked again about what they have refused while there was no connection.
    last.send(message.printOffer(2, "other.pdf", 700, { title: "unwanted" }));
    await answerTo(last, 2, YES);
    last.send(message.fileData(2, 0, pdf(1, 700 - pdf(1).length)));
    await button(page, "Refuse").and(page.locator(":enabled")).waitFor();
    session.pause();
    last.socket.destroy();
    await page.locator("#state").waitFor();
    await button(page, "Refuse").click();
    session.resume();
    const after = await session.viewer(4);
    await greet(page, after);
    after.send(message.printOffer(1, "other.pdf", 700, { title: "unwanted" }));
    assert.equal((await endOf(after, 1)).why, DONE);
    assert.ok(await page.locator("#files").isHidden());
  });

test("a browser that shows no PDF saves it", async (t) => {
  const { page, viewer } = await opened(t, { script: withoutViewer });
  const content = pdf(1);
  await send(viewer, 1, content, { title: "Report" }, "aux.pdf");
  await asks(page, "This browser cannot print PDF: save it, and print the file.");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    button(page, "Save").click(),
  ]);
  assert.equal(download.suggestedFilename(), "aux.pdf");
  assert.equal(sha256(readFileSync(await download.path())), sha256(content));
  assert.equal((await endOf(viewer, 1)).why, DONE);
  await noticeSays(page, 'Saved "Report" as aux.pdf');
  assert.deepEqual(page.problems, []);
});

test("where the browser's frame cannot be printed, the document is saved instead", async (t) => {
  const { page, viewer } = await opened(t, { script: withBrokenFrames });
  await send(viewer, 1, pdf(1));
  await button(page, "Print").click();
  assert.equal((await endOf(viewer, 1)).why, DONE);
  await asks(page, "This browser cannot print PDF: save it, and print the file.");
  assert.equal(await page.locator("iframe").count(), 0);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    button(page, "Save").click(),
  ]);
  assert.equal(download.suggestedFilename(), "Report.pdf");
  // It is so for the next one too.
  await send(viewer, 2, pdf(1), { title: "second" });
  await asks(page, '"second"');
  await button(page, "Save").waitFor();
  assert.deepEqual(page.problems, []);
});

test("a phone opens the document in another tab", async (t) => {
  const { page, viewer } = await opened(t, { tab: PHONE });
  assert.ok(await page.evaluate(() => navigator.pdfViewerEnabled), "this Chromium shows PDF");
  await send(viewer, 1, pdf(1));
  await asks(page, '"Report" (1 page');
  const box = await button(page, "Open").boundingBox();
  assert.ok(box.height >= 44, "room for a finger");
  await button(page, "Open").and(page.locator(":enabled")).waitFor();
  assert.equal(page.context().pages().length, 1);
  const [tab] = await Promise.all([
    page.context().waitForEvent("page"),
    button(page, "Open").tap(),
  ]);
  const url = await page.evaluate(() => window.documents[0].url);
  await tab.waitForURL(({ href }) => href === url, { waitUntil: "commit" });
  assert.equal((await endOf(viewer, 1)).why, DONE);
  assert.ok(await page.locator("#files").isHidden());
});

test("an address can say that nothing is printed", async (t) => {
  for (const [query, caps] of [
    ["?printing=off", CAP_FILES],
    ["?files=off", CAP_PRINTS],
    ["?files=off&printing=off", 0],
  ]) {
    const { page, viewer } = await opened(t, { query });
    const hello = await viewer.receive((m) => m.kind === "hello");
    assert.equal(hello.caps & (CAP_FILES | CAP_PRINTS), caps, query);
    viewer.send(message.printOffer(1, "Report.pdf", 100));
    await answerTo(viewer, 1, (caps & CAP_PRINTS) === 0 ? POLICY : YES);
    assert.ok(await page.locator("#files-question").isHidden());
    await page.context().close();
  }
});

// Real sessions

/** A session whose command tells its environment; `lp` and `lpstat` as programs there run them. */
async function printingSession(t) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-printing-"));
  t.after(() => removeFolder(folder));
  const path = join(folder, "environment");
  const script = 'env > "$1.new"; mv "$1.new" "$1"; exec sleep infinity';
  const session = await Session.start(["sh", "-c", script, "sh", path]);
  t.after(() => session.stop());
  const text = await fileHas(path, (content) => content);
  const pairs = [...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, ...pair]) => pair);
  const told = Object.fromEntries(pairs);
  const env = { ...session.env, CUPS_SERVER: told.CUPS_SERVER, LC_ALL: "C.UTF-8" };
  const document = join(folder, "document.pdf");
  const options = { env, encoding: "utf8", timeout: 60_000, killSignal: "SIGKILL" };
  return {
    session,
    /** A program of the session, with its files in the folder. */
    program: (name, ...words) => execFile(name, words, { ...options, env: told }),
    folder,
    /** Prints it; returns the job's name. */
    lp(content, ...more) {
      writeFileSync(document, content);
      const words = execFileSync("lp", [...more, document], options);
      return /^request id is (\S+) /.exec(words)[1];
    },
    /** Waits until a job is no longer listed as one that waits. */
    async ended(job) {
      for (;;) {
        const { stdout } = await promisify(execFile)("lpstat", ["-o"], options);
        if (!stdout.includes(job)) return;
      }
    },
    waits(job) {
      return execFileSync("lpstat", ["-o"], options).includes(job);
    },
  };
}

/** The session's page, which records what it prints. */
async function openTabOf(t, session) {
  const page = await openTab(browser);
  t.after(() => page.context().close());
  await page.addInitScript(recorded);
  await page.goto(session.link);
  await isConnected(page);
  return page;
}

test("what lp prints in a session is printed by Chromium, or refused", async (t) => {
  const printer = await printingSession(t);
  const content = pdf(2, 700_000);
  // It waits for a page that prints.
  const job = printer.lp(content, "-t", "../Quarterly report", "-n", "3");
  const page = await openTabOf(t, printer.session);
  await asks(page, '"../Quarterly report" (2 pages, 701 kB, 3 copies)');
  assert.ok(printer.waits(job), "nobody has answered");
  assert.deepEqual(await page.evaluate(() => window.prints), []);
  await button(page, "Print").click();
  await printed(page, 1);
  assert.equal(sha256(await documentOf(page, 0)), sha256(content));
  await printer.ended(job);
  const second = printer.lp(pdf(1), "-t", "second");
  await asks(page, '"second" (1 page');
  await button(page, "Refuse").click();
  await printer.ended(second);
  assert.equal(await page.evaluate(() => window.prints.length), 1);
  assert.deepEqual(page.problems, []);
});

test("Firefox prints what lp prints in a session", async (t) => {
  const printer = await printingSession(t);
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(printer.session.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.run(`
    page.prints = 0;
    const { prototype } = page.HTMLIFrameElement;
    const { get } = Object.getOwnPropertyDescriptor(prototype, "contentWindow");
    Object.defineProperty(prototype, "contentWindow", {
      get() {
        const shown = get.call(this);
        const print = () => {
          if (typeof shown.print !== "function") throw new Error("it cannot be printed");
          page.prints += 1;
        };
        return { print };
      },
    });`);
  const job = printer.lp(pdf(2), "-t", "Report");
  const words = `page.document.getElementById("files-words").textContent`;
  await firefox.waitFor(`return ${words}.includes('"Report" (2 pages');`);
  await firefox.waitFor(`return !page.document.getElementById("files-save").disabled;`);
  assert.ok(printer.waits(job), "nobody has answered");
  await firefox.run(`page.document.getElementById("files-save").click();`);
  await firefox.waitFor(`return page.prints === 1;`);
  await printer.ended(job);
});

/**
 * Debian's first update against CVE-2025-58436, with which GTK asks every print server for its
 * printers in a loop without an end (https://github.com/OpenPrinting/cups/issues/1429).
 */
const LIBCUPS_THAT_HANGS_GTK = "2.4.2-3+deb12u10";

/** Empty where libcups is no package of Debian. */
function libcupsVersion() {
  try {
    const query = ["--show", `--showformat=\${Version}`, "libcups2"];
    return execFileSync("dpkg-query", query, { encoding: "utf8", stdio: "pipe" });
  } catch {
    return "";
  }
}

test("LibreOffice and Chromium in a session print to the page", async (t) => {
  const printer = await printingSession(t);
  const page = await openTabOf(t, printer.session);
  const report = join(printer.folder, "report.txt");
  writeFileSync(report, "Dear printer,\n");
  const profile = `file://${printer.folder}/libreoffice`;
  const office = ["--headless", `-env:UserInstallation=${profile}`, "--pt", "thinc", report];
  const invoice = join(printer.folder, "invoice.html");
  const script = "onload = () => print();";
  writeFileSync(invoice, `<title>Invoice</title><p>42</p><script>${script}</script>`);
  const kiosk = ["--no-sandbox", "--no-first-run", "--kiosk-printing"];
  const folder = `--user-data-dir=${printer.folder}/chromium`;
  const programs = [
    [1, "report", "soffice", ...office],
    [2, "Invoice", "chromium", ...kiosk, folder, `file://${invoice}`],
  ];
  if (libcupsVersion() === LIBCUPS_THAT_HANGS_GTK) {
    t.diagnostic(`Chromium prints by GTK, which hangs with libcups2 ${LIBCUPS_THAT_HANGS_GTK}`);
    programs.pop();
  }
  for (const [number, title, name, ...words] of programs) {
    const program = printer.program(name, ...words);
    await asks(page, title);
    await asks(page, "(1 page, ");
    await button(page, "Print").click();
    await printed(page, number);
    assert.equal((await documentOf(page, number - 1)).subarray(0, 5).toString(), "%PDF-", name);
    program.kill();
    if (program.exitCode === null && program.signalCode === null) await once(program, "exit");
  }
  assert.deepEqual(page.problems, []);
});
