//! What the administrator asks of the helper, and lets it do. Beside the path: under ../helper.rs,
//! from ../admin.rs, which has let nobody but root in. Knows logins and viewers; never a session.

use std::time::Instant;

use tracing::info;

use super::{OpenViewer, State};
use crate::admin::{AdminRequest, AdminStatus, AdminViewer, Named};
use crate::audit::{Entry, Event};

impl State {
    /// The answer; `by` is the user ID with which the administrator logged in.
    pub(super) fn administrate(&mut self, request: &AdminRequest, by: Option<u32>) -> Vec<u8> {
        self.expire(Instant::now());
        let event = match request {
            AdminRequest::Ended(named) => Some((Event::SessionEnded, named)),
            AdminRequest::Told(named) => Some((Event::Message, named)),
            _ => None,
        };
        if let Some((event, Named { user, session })) = event {
            let (user, session) = (Some(user.as_str()), Some(session.as_str()));
            let reason = Some("by the administrator");
            self.audit.record(&Entry { user, session, reason, by, ..Entry::new(event) });
        }
        let change = match request {
            AdminRequest::Status
            | AdminRequest::Ended(_)
            | AdminRequest::Told(_)
            | AdminRequest::Forget { .. }
            | AdminRequest::Viewers => None,
            AdminRequest::Drain => Some(true),
            AdminRequest::Resume => Some(false),
        };
        if let Some(is_draining) = change
            && self.draining.send_replace(is_draining) != is_draining
        {
            let what = if is_draining { "takes no new logins" } else { "takes logins again" };
            info!("the broker {what}, as its administrator wants");
        }
        let status = AdminStatus {
            is_draining: *self.draining.borrow(),
            logins: self.logins.len() as u32,
            viewers: self.viewers.len() as u32,
        };
        let mut answer = status.encode();
        if *request == AdminRequest::Viewers {
            answer.extend(AdminViewer::encode_all(&self.admin_viewers()));
        }
        answer
    }

    /// The longest connected first.
    fn admin_viewers(&self) -> Vec<AdminViewer> {
        let mut viewers: Vec<&OpenViewer> = self.viewers.values().collect();
        viewers.sort_by_key(|viewer| viewer.since);
        let told = |viewer: &OpenViewer| AdminViewer {
            of: Named { user: viewer.user.clone(), session: viewer.session.clone() },
            from: viewer.from,
            seconds: viewer.since.elapsed().as_secs(),
            is_guest: viewer.is_guest,
        };
        viewers.into_iter().map(told).collect()
    }
}
