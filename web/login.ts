// Exchanges the single-use token of a link for the cookie that opens the session, and goes there.
// Stands before the path; the server answers nothing but this page until it has been done.
// The token lives in the URL's fragment, which browsers send to nobody, and leaves the address bar first of all.

import { forgetTab } from "./tab";
import { redeem, takeToken, wordsForRefusal } from "./token";

const title = document.getElementById("title") as HTMLElement;
const words = document.getElementById("words") as HTMLElement;

function say(first: string, then: string): void {
  title.textContent = first;
  words.textContent = then;
}

async function login(): Promise<void> {
  // The session that this tab showed has ended, or does not know it any more.
  forgetTab();
  const token = takeToken();
  if (token === undefined) {
    say("This session needs a link", "Open the link that thinc printed when it started the session, or make a new one with: thinc link");
    return;
  }
  say("Opening the session…", "");
  const refusal = await redeem(token);
  if (refusal === undefined) location.replace(`./${location.search}`);
  else say("This link does not open the session", wordsForRefusal(refusal));
}

// A second link pasted into the same tab changes only the fragment, which loads nothing.
addEventListener("hashchange", () => void login());
void login();
