-- How do the nodes stand that have had calls of a capability since an instant?
-- Index: the primary key. Lock: none.
SELECT count(*) AS callers, count(*) FILTER (WHERE opened_until > $3 AND has_answers) AS with_answers,
    count(*) FILTER (WHERE opened_until > $3 AND NOT has_answers) AS without_answers
FROM breaker_votes WHERE lane_id = $1 AND called_at >= $2;
