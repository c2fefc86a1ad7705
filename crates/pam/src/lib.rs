//! Linux-PAM: authenticates a person by the system's rules and opens a session for them. Beside the
//! path: from thinc-broker's login process, to the system's libpam. Knows the calls of
//! `security/pam_appl.h`; never sockets, nor who may log in.
#![deny(unsafe_code)]
#![expect(unsafe_code, reason = "libpam is in C, and the crates for it open no sessions")]

mod shadow;

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::ptr::{null, null_mut};

pub use shadow::shadow_password;

/// Most messages that a module may show at once: `PAM_MAX_NUM_MSG` of `security/_pam_types.h`.
const MESSAGES_MAX: usize = 32;
/// Longest answer in bytes, without its zero: `PAM_MAX_RESP_SIZE` less one.
pub const ANSWER_BYTES_MAX: usize = 511;

// Values of security/_pam_types.h, which have never changed.
const PAM_SUCCESS: c_int = 0;
const PAM_BUF_ERR: c_int = 5;
const PAM_NEW_AUTHTOK_REQD: c_int = 12;
const PAM_CONV_ERR: c_int = 19;
const PAM_PROMPT_ECHO_OFF: c_int = 1;
const PAM_PROMPT_ECHO_ON: c_int = 2;
const PAM_ERROR_MSG: c_int = 3;
const PAM_TEXT_INFO: c_int = 4;
const PAM_USER: c_int = 2;
const PAM_TTY: c_int = 3;
const PAM_RHOST: c_int = 4;
const PAM_FAIL_DELAY: c_int = 10;
const PAM_DISALLOW_NULL_AUTHTOK: c_int = 0x1;
const PAM_ESTABLISH_CRED: c_int = 0x2;
const PAM_DELETE_CRED: c_int = 0x4;
const PAM_CHANGE_EXPIRED_AUTHTOK: c_int = 0x20;

#[repr(C)]
struct RawMessage {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct RawAnswer {
    text: *mut c_char,
    code: c_int,
}

type Callback =
    unsafe extern "C" fn(c_int, *mut *const RawMessage, *mut *mut RawAnswer, *mut c_void) -> c_int;

#[repr(C)]
struct RawConversation {
    callback: Callback,
    data: *mut c_void,
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

#[link(name = "pam")]
unsafe extern "C" {
    fn pam_start(
        service: *const c_char,
        user: *const c_char,
        conversation: *const RawConversation,
        handle: *mut *mut Handle,
    ) -> c_int;
    fn pam_end(handle: *mut Handle, status: c_int) -> c_int;
    fn pam_set_item(handle: *mut Handle, item: c_int, value: *const c_void) -> c_int;
    fn pam_get_item(handle: *const Handle, item: c_int, value: *mut *const c_void) -> c_int;
    fn pam_putenv(handle: *mut Handle, pair: *const c_char) -> c_int;
    fn pam_getenvlist(handle: *mut Handle) -> *mut *mut c_char;
    fn pam_authenticate(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_acct_mgmt(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_chauthtok(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_setcred(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_open_session(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_close_session(handle: *mut Handle, flags: c_int) -> c_int;
    fn pam_strerror(handle: *mut Handle, status: c_int) -> *const c_char;
}

/// How a module's message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A question whose answer is not shown, such as a password.
    Hidden,
    /// A question whose answer may be shown.
    Shown,
    /// An error, which needs no answer.
    Error,
    /// Information, which needs no answer.
    Info,
}

/// A message of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// How it is shown, and whether it is answered.
    pub style: Style,
    /// What it says.
    pub text: String,
}

impl Style {
    /// True for questions.
    pub fn needs_answer(self) -> bool {
        matches!(self, Style::Hidden | Style::Shown)
    }
}

/// Shows a module's messages and returns one answer for each question, in order; `None` ends the
/// attempt.
type Converse = dyn FnMut(&[Prompt]) -> Option<Vec<Vec<u8>>>;

/// A refusal or a failure; the text is PAM's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PamError {
    code: c_int,
    text: String,
}

impl fmt::Display for PamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (PAM error {})", self.text, self.code)
    }
}

impl std::error::Error for PamError {}

impl PamError {
    /// The password is right and has expired: it has to be changed.
    pub fn needs_new_password(&self) -> bool {
        self.code == PAM_NEW_AUTHTOK_REQD
    }
}

/// One transaction, from `pam_start` to `pam_end`. Belongs to one thread.
pub struct Pam {
    handle: *mut Handle,
    status: c_int,
    /// PAM has its address: it must not move and must outlive the handle.
    _converse: Box<Box<Converse>>,
}

impl fmt::Debug for Pam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pam").field("status", &self.status).finish_non_exhaustive()
    }
}

fn c_string(text: &OsStr) -> Result<CString, PamError> {
    CString::new(text.as_bytes())
        .map_err(|_| PamError { code: PAM_BUF_ERR, text: "a text contains a zero byte".to_owned() })
}

impl Pam {
    /// Starts a transaction by the rules of /etc/pam.d/`service`.
    pub fn start(
        service: &str,
        user: &str,
        converse: impl FnMut(&[Prompt]) -> Option<Vec<Vec<u8>>> + 'static,
    ) -> Result<Pam, PamError> {
        let (service, user) = (c_string(service.as_ref())?, c_string(user.as_ref())?);
        let converse: Box<Box<Converse>> = Box::new(Box::new(converse));
        let raw = RawConversation {
            callback: show,
            data: (&raw const *converse).cast_mut().cast::<c_void>(),
        };
        let mut handle = null_mut();
        // SAFETY: both texts end with a zero and live as long as the call, which copies them and
        // the conversation. What the conversation's data points to lives as long as the handle.
        let status =
            unsafe { pam_start(service.as_ptr(), user.as_ptr(), &raw const raw, &raw mut handle) };
        if status != PAM_SUCCESS || handle.is_null() {
            let text = "libpam cannot start".to_owned();
            return Err(PamError { code: status, text });
        }
        let mut pam = Pam { handle, status, _converse: converse };
        // Modules ask for a delay after a wrong password and none for an unknown user, which would
        // tell them apart. The caller gives every refusal the same time.
        // SAFETY: the handle is valid; the item is a function, which lives as long as the program.
        let status =
            unsafe { pam_set_item(pam.handle, PAM_FAIL_DELAY, ignore_delay as *const c_void) };
        pam.check(status)?;
        Ok(pam)
    }

    /// Where the person is, and the name of their terminal, for modules and logs.
    pub fn set_origin(&mut self, remote_host: &str, terminal: &str) -> Result<(), PamError> {
        for (item, value) in [(PAM_RHOST, remote_host), (PAM_TTY, terminal)] {
            let value = c_string(value.as_ref())?;
            // SAFETY: the handle is valid; the text ends with a zero and is copied.
            let status = unsafe { pam_set_item(self.handle, item, value.as_ptr().cast()) };
            self.check(status)?;
        }
        Ok(())
    }

    /// Sets a variable that modules and the session see.
    pub fn set_variable(&mut self, name: &str, value: &str) -> Result<(), PamError> {
        let pair = c_string(format!("{name}={value}").as_ref())?;
        // SAFETY: the handle is valid; the text ends with a zero and is copied.
        let status = unsafe { pam_putenv(self.handle, pair.as_ptr()) };
        self.check(status)
    }

    /// Proves who the person is. An empty password proves nothing.
    pub fn authenticate(&mut self) -> Result<(), PamError> {
        // SAFETY: the handle is valid, as in the calls below.
        let status = unsafe { pam_authenticate(self.handle, PAM_DISALLOW_NULL_AUTHTOK) };
        self.check(status)
    }

    /// Whether the account may be used now.
    pub fn check_account(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_acct_mgmt(self.handle, PAM_DISALLOW_NULL_AUTHTOK) };
        self.check(status)
    }

    /// Has an expired password changed.
    pub fn change_expired_password(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_chauthtok(self.handle, PAM_CHANGE_EXPIRED_AUTHTOK) };
        self.check(status)
    }

    /// Gives this process the credentials of the person.
    pub fn establish_credentials(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_setcred(self.handle, PAM_ESTABLISH_CRED) };
        self.check(status)
    }

    /// Removes them.
    pub fn delete_credentials(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_setcred(self.handle, PAM_DELETE_CRED) };
        self.check(status)
    }

    /// Opens the session; the same process has to close it.
    pub fn open_session(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_open_session(self.handle, 0) };
        self.check(status)
    }

    /// Closes it.
    pub fn close_session(&mut self) -> Result<(), PamError> {
        // SAFETY: as above.
        let status = unsafe { pam_close_session(self.handle, 0) };
        self.check(status)
    }

    /// The account that was authenticated: modules may have changed the name.
    pub fn user(&mut self) -> Result<String, PamError> {
        let mut value = null();
        // SAFETY: the handle is valid; the answer is stored in `value`.
        let status = unsafe { pam_get_item(self.handle, PAM_USER, &raw mut value) };
        self.check(status)?;
        let none = PamError { code: PAM_BUF_ERR, text: "there is no user name".to_owned() };
        if value.is_null() {
            return Err(none);
        }
        // SAFETY: the item is a text that ends with a zero; it lives until the item is set again.
        let name = unsafe { CStr::from_ptr(value.cast()) };
        name.to_str().map(str::to_owned).map_err(|_| none)
    }

    /// The environment that modules have made for the session.
    pub fn environment(&mut self) -> Vec<(OsString, OsString)> {
        let mut pairs = Vec::new();
        // SAFETY: the handle is valid.
        let list = unsafe { pam_getenvlist(self.handle) };
        if list.is_null() {
            return pairs;
        }
        for at in 0.. {
            // SAFETY: the list has texts that end with a zero, up to a null pointer, where this
            // loop ends. Each was allocated with malloc for the caller, who frees it once.
            let pair = unsafe {
                let text = *list.add(at);
                if text.is_null() {
                    break;
                }
                let pair = CStr::from_ptr(text).to_bytes().to_vec();
                libc::free(text.cast());
                pair
            };
            if let Some(equals) = pair.iter().position(|&byte| byte == b'=') {
                let value = OsString::from_vec(pair[equals + 1..].to_vec());
                pairs.push((OsString::from_vec(pair[..equals].to_vec()), value));
            }
        }
        // SAFETY: the list itself was allocated the same way.
        unsafe { libc::free(list.cast()) };
        pairs
    }

    fn check(&mut self, status: c_int) -> Result<(), PamError> {
        self.status = status;
        if status == PAM_SUCCESS {
            return Ok(());
        }
        // SAFETY: the answer is a static text that ends with a zero, or null.
        let text = unsafe {
            let text = pam_strerror(self.handle, status);
            if text.is_null() { c"unknown" } else { CStr::from_ptr(text) }
        };
        Err(PamError { code: status, text: text.to_string_lossy().into_owned() })
    }
}

impl Drop for Pam {
    fn drop(&mut self) {
        // SAFETY: the handle is valid and is not used after this.
        unsafe { pam_end(self.handle, self.status) };
    }
}

/// Called by libpam instead of waiting.
extern "C" fn ignore_delay(_status: c_int, _microseconds: c_uint, _data: *mut c_void) {}

/// Called by libpam with the messages of a module.
unsafe extern "C" fn show(
    count: c_int,
    messages: *mut *const RawMessage,
    answers: *mut *mut RawAnswer,
    data: *mut c_void,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    if !(1..=MESSAGES_MAX).contains(&count) || messages.is_null() || answers.is_null() {
        return PAM_CONV_ERR;
    }
    let mut prompts = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: Linux-PAM passes `count` pointers to messages, whose texts end with a zero.
        let (style, text) = unsafe {
            let message = *messages.add(at);
            if message.is_null() {
                return PAM_CONV_ERR;
            }
            let text = (*message).text;
            ((*message).style, if text.is_null() { c"" } else { CStr::from_ptr(text) })
        };
        let style = match style {
            PAM_PROMPT_ECHO_OFF => Style::Hidden,
            PAM_PROMPT_ECHO_ON => Style::Shown,
            PAM_ERROR_MSG => Style::Error,
            PAM_TEXT_INFO => Style::Info,
            _ => return PAM_CONV_ERR,
        };
        prompts.push(Prompt { style, text: text.to_string_lossy().into_owned() });
    }
    // SAFETY: `data` is the address that Pam::start passed, and what it points to lives as long as
    // the handle. Only this function uses it, and libpam does not call it again before it returns.
    let converse = unsafe { &mut *data.cast::<Box<Converse>>() };
    let asked = prompts.iter().filter(|prompt| prompt.style.needs_answer()).count();
    let given = match converse(&prompts) {
        Some(given) if given.len() == asked => given,
        _ => return PAM_CONV_ERR,
    };
    let fits = |text: &Vec<u8>| text.len() <= ANSWER_BYTES_MAX && !text.contains(&0);
    if !given.iter().all(fits) {
        return PAM_CONV_ERR;
    }
    // SAFETY: calloc returns null or zeroed memory for `count` answers: null texts and code 0.
    // libpam frees it, and each text, with free.
    let list = unsafe { libc::calloc(count, size_of::<RawAnswer>()) }.cast::<RawAnswer>();
    if list.is_null() {
        return PAM_BUF_ERR;
    }
    let mut given = given.iter();
    for (at, prompt) in prompts.iter().enumerate() {
        if !prompt.style.needs_answer() {
            continue;
        }
        let text = given.next().expect("there is one for each question");
        // SAFETY: calloc returns null or `len + 1` zeroed bytes, of which `len` are written; `at`
        // is below `count`.
        unsafe {
            let copy = libc::calloc(text.len() + 1, 1).cast::<u8>();
            if copy.is_null() {
                free_answers(list, at);
                return PAM_BUF_ERR;
            }
            copy.copy_from_nonoverlapping(text.as_ptr(), text.len());
            (*list.add(at)).text = copy.cast();
        }
    }
    // SAFETY: `answers` is not null; libpam owns the list from here on.
    unsafe { *answers = list };
    PAM_SUCCESS
}

/// # Safety
/// `list` has at least `count` answers from calloc, and is not used after this.
unsafe fn free_answers(list: *mut RawAnswer, count: usize) {
    for at in 0..count {
        // SAFETY: by this function's contract.
        unsafe { libc::free((*list.add(at)).text.cast()) };
    }
    // SAFETY: as above.
    unsafe { libc::free(list.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls the callback as libpam does, and reads and frees its answers.
    fn converse(
        messages: &[(c_int, &CStr)],
        answer: impl FnMut(&[Prompt]) -> Option<Vec<Vec<u8>>> + 'static,
    ) -> Result<Vec<Option<String>>, c_int> {
        let raw: Vec<RawMessage> = messages
            .iter()
            .map(|(style, text)| RawMessage { style: *style, text: text.as_ptr() })
            .collect();
        let mut pointers: Vec<*const RawMessage> = raw.iter().map(|raw| &raw const *raw).collect();
        let data: Box<Box<Converse>> = Box::new(Box::new(answer));
        let mut list = null_mut();
        // SAFETY: as many valid messages as are counted, and data of the right type.
        let status = unsafe {
            show(
                raw.len() as c_int,
                pointers.as_mut_ptr(),
                &raw mut list,
                (&raw const *data).cast_mut().cast(),
            )
        };
        if status != PAM_SUCCESS {
            return Err(status);
        }
        // SAFETY: on success there is an answer for each message; its text is null or ends with a
        // zero.
        unsafe {
            let texts = (0..raw.len())
                .map(|at| (*list.add(at)).text)
                .map(|text| {
                    (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
                })
                .collect();
            free_answers(list, raw.len());
            Ok(texts)
        }
    }

    #[test]
    fn questions_are_answered_in_order_and_messages_are_not() {
        let messages =
            [(PAM_TEXT_INFO, c"Hello"), (PAM_PROMPT_ECHO_OFF, c"Password:"), (2, c"Code:")];
        let answers = converse(&messages, |prompts| {
            assert_eq!(prompts[0], Prompt { style: Style::Info, text: "Hello".into() });
            assert_eq!(prompts[1].style, Style::Hidden);
            Some(vec![b"secret".to_vec(), b"123".to_vec()])
        });
        assert_eq!(answers, Ok(vec![None, Some("secret".into()), Some("123".into())]));
    }

    #[test]
    fn wrong_answers_end_the_conversation() {
        let question = [(PAM_PROMPT_ECHO_OFF, c"Password:")];
        for bad in [
            None,
            Some(vec![]),
            Some(vec![b"a".to_vec(), b"b".to_vec()]),
            Some(vec![b"a\0b".to_vec()]),
            Some(vec![vec![b'a'; ANSWER_BYTES_MAX + 1]]),
        ] {
            assert_eq!(converse(&question, move |_| bad.clone()), Err(PAM_CONV_ERR));
        }
        assert_eq!(converse(&[(99, c"?")], |_| Some(vec![])), Err(PAM_CONV_ERR));
        assert_eq!(converse(&[], |_| Some(vec![])), Err(PAM_CONV_ERR));
    }
}
