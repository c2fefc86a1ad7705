// Exchanges the token of a link for the session's cookie, and opens the session.
// Before the path: until then the server answers with nothing but this page. A person who was
// invited gives a name here, and the invitation's password if it has one.
// The token is in the URL's fragment, which browsers send to nobody, and is removed from the
// address bar first.

import { forgetTab } from "./store/tab";
import {
  describeRefusal,
  type Guest,
  type Invitation,
  invitationOf,
  redeem,
  takeToken,
} from "./store/token";

function element<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

const title = element("title");
const words = element("words");
const form = element<HTMLFormElement>("guest");
const nameField = element<HTMLInputElement>("name");
const passwordField = element<HTMLInputElement>("password");
const button = form.querySelector("button") as HTMLButtonElement;

function show(first: string, then: string): void {
  title.textContent = first;
  words.textContent = then;
}

async function login(): Promise<void> {
  // The session that this tab showed has ended, or does not know it any more.
  forgetTab();
  form.hidden = true;
  const token = takeToken();
  if (token === undefined) {
    show(
      "This session needs a link",
      "Open the link that thinc printed at the session's start, or make a new one with: thinc link",
    );
    return;
  }
  const invitation = invitationOf(token);
  if (invitation === undefined) await open(token, undefined);
  else ask(token, invitation);
}

async function open(token: string, guest: Guest | undefined): Promise<void> {
  show("Opening the session…", "");
  const refusal = await redeem(token, guest);
  if (refusal === undefined) location.replace(`./${location.search}`);
  else show("This link does not open the session", describeRefusal(refusal, guest !== undefined));
}

/** Asks a guest, again after a refusal: a wrong password does not use the invitation. */
function ask(token: string, invitation: Invitation): void {
  show("You are invited to a session", "");
  form.hidden = false;
  element("password-row").hidden = !invitation.password;
  passwordField.required = invitation.password;
  form.onsubmit = (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    const guest = { name: nameField.value, password: passwordField.value };
    void open(token, guest).finally(() => {
      button.disabled = false;
      passwordField.value = "";
    });
  };
  nameField.focus();
}

// A second link pasted into the same tab changes only the fragment, which loads nothing.
addEventListener("hashchange", () => void login());
void login();
