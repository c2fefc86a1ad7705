// Numbers of the page's transfers, of files and of what is printed: both are in one list.
// Beside the path: under files.ts and printing.ts. Knows nothing else.

let last = 0;

export function newKey(): number {
  last += 1;
  return last;
}
