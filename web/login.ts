// Exchanges the single-use token of a link for the session's cookie, and opens the session.
// Before the path: until then the server answers with nothing but this page.
// The token is in the URL's fragment, which browsers send to nobody, and is removed from the
// address bar first.

import { forgetTab } from "./store/tab";
import { describeRefusal, redeem, takeToken } from "./store/token";

const title = document.getElementById("title") as HTMLElement;
const words = document.getElementById("words") as HTMLElement;

function show(first: string, then: string): void {
  title.textContent = first;
  words.textContent = then;
}

async function login(): Promise<void> {
  // The session that this tab showed has ended, or does not know it any more.
  forgetTab();
  const token = takeToken();
  if (token === undefined) {
    show(
      "This session needs a link",
      "Open the link that thinc printed at the session's start, or make a new one with: thinc link",
    );
    return;
  }
  show("Opening the session…", "");
  const refusal = await redeem(token);
  if (refusal === undefined) location.replace(`./${location.search}`);
  else show("This link does not open the session", describeRefusal(refusal));
}

// A second link pasted into the same tab changes only the fragment, which loads nothing.
addEventListener("hashchange", () => void login());
void login();
