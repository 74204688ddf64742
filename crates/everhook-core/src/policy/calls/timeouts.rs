//! How long a capability may take whose manifest does not say: by its name, as the operator set it. Pure.

use std::time::Duration;

/// The times of capabilities that are known by their names, and of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutsByName {
    /// Of checking an answer to a quiz.
    pub quiz_answer: Duration,
    /// Of selecting winners.
    pub winner_selection: Duration,
    /// Of registering a participant.
    pub participant_registration: Duration,
    /// Of sending a notification.
    pub notification: Duration,
    /// Of everything else.
    pub other: Duration,
    /// Of jobs: how long an app may take to call back.
    pub async_job: Duration,
}

impl Default for TimeoutsByName {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Self {
            quiz_answer: secs(2),
            winner_selection: secs(5),
            participant_registration: secs(3),
            notification: secs(2),
            other: secs(10),
            async_job: secs(30),
        }
    }
}

impl TimeoutsByName {
    /// The time of a capability. Case and the signs `:`, `_`, `-` and `.` make no difference.
    pub fn of(&self, capability: &str) -> Duration {
        let plain: String = capability.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        match plain.as_str() {
            "quizanswer" | "quizanswersubmit" | "quizanswervalidation" | "answervalidation" | "validateanswer" => self.quiz_answer,
            "winnerselection" | "selectwinner" | "selectwinners" => self.winner_selection,
            "participantregistration" | "registerparticipant" => self.participant_registration,
            "notification" | "notifications" | "realtimenotification" => self.notification,
            _ => self.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_makes_no_difference() {
        let table = [
            ("winnerSelection", 5),
            ("winner_selection", 5),
            ("WINNER-SELECTION", 5),
            ("quiz:answer_submit", 2),
            ("quiz_answer", 2),
            ("participantRegistration", 3),
            ("notification", 2),
            ("analytics", 10),
            ("winnerSelectionV2", 10),
        ];
        for (name, secs) in table {
            assert_eq!(TimeoutsByName::default().of(name), Duration::from_secs(secs), "{name}");
        }
    }
}
