// What can be read of a PDF without decoding it: that it begins as one, and its pages.
// Beside the path: under printing.ts. Knows ISO 32000-1; a document is untrusted, and says only
// what a person is told.

/** As the session's own check (crates/printing/src/lib.rs). */
const START = "%PDF";
/** Pages of larger documents are not counted: all of it would have to be in this page's memory. */
const COUNTED_BYTES_MAX = 16 * 1024 * 1024;
/** Of one object that is searched: the root of the pages lists its children. */
const OBJECT_LENGTH_MAX = 1024 * 1024;
/** Above that a number is not believed. */
const PAGES_MAX = 100_000;

export async function isPdf(document: Blob): Promise<boolean> {
  return (await document.slice(0, START.length).text()) === START;
}

/** Undefined if it is not known. */
export async function pagesOf(document: Blob): Promise<number | undefined> {
  if (document.size > COUNTED_BYTES_MAX) return undefined;
  return countPages(new TextDecoder("latin1").decode(await document.arrayBuffer()));
}

/**
 * From the newest trailer to the catalog and the root of the pages (7.5.5, 7.7.2, 7.7.3).
 * Undefined where these are compressed.
 */
export function countPages(text: string): number | undefined {
  const root = text.lastIndexOf("/Root");
  if (root < 0) return undefined;
  const catalog = referredTo(text, text.slice(root), "Root");
  const pages = catalog && referredTo(text, catalog, "Pages");
  const count = Number(/\/Count\s+(\d{1,6})\b/.exec(pages ?? "")?.[1]);
  return count >= 1 && count <= PAGES_MAX ? count : undefined;
}

/** The object that the first reference under this name refers to. */
function referredTo(text: string, from: string, name: string): string | undefined {
  const at = from.indexOf(`/${name}`);
  const reference = /^\s+(\d{1,10})\s+(\d{1,5})\s+R\b/.exec(
    from.slice(at + 1 + name.length, at + 64),
  );
  if (at < 0 || reference === null) return undefined;
  // An update appends a newer version of an object.
  const head = `${reference[1]} ${reference[2]} obj`;
  const begins = ["\n", "\r"].map((end) => text.lastIndexOf(`${end}${head}`));
  const begin = Math.max(...begins);
  if (begin < 0) return undefined;
  const object = text.slice(begin, begin + OBJECT_LENGTH_MAX);
  const end = object.indexOf("endobj");
  return end < 0 ? undefined : object.slice(0, end);
}
