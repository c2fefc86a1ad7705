// Desktops behind `thinc broker`: each has a page at /desk/NAME/, and one login opens all of them.
// Used by account.ts, which logs in and lists them, and by main.ts, which goes there to log in.
// Knows addresses and this browser's storage; never a password.

/** The origin secret of the login; each desktop's page has a copy of its own (see token.ts). */
const SECRET_KEY = "thinc broker secret";

/** The desktop that this page shows; undefined unless a broker has served the page. */
export function deskName(): string | undefined {
  if (document.documentElement.dataset.broker === undefined) return undefined;
  return /\/desk\/([^/]+)\/$/.exec(new URL("./", document.baseURI).pathname)?.[1];
}

/** The page of a desktop. */
export const deskPath = (name: string) => `/desk/${name}/`;

/** The page that logs in, and then opens this desktop. */
export const homePath = (name?: string) => (name === undefined ? "/" : `/?open=${name}`);

export const loadLogin = () => localStorage.getItem(SECRET_KEY) ?? undefined;
export const saveLogin = (secret: string) => localStorage.setItem(SECRET_KEY, secret);

/** The next page of this browser has no login. */
export function forgetLogin(): void {
  try {
    localStorage.removeItem(SECRET_KEY);
  } catch {
    // There is none.
  }
}
