-- Deliveries that have ended, from the number `:from` to before `:to`, spread over a thousand lanes and 28 days: ten of an event, one attempt each.

INSERT INTO events (
    id, organization_id, application_id, event_type, timestamp, priority, sequence_number, deliveries, first_delivery_id, last_delivery_id,
    created_at, encoding, body
)
SELECT numbered('9000', (n - :from) * 2419200000 / (:to - :from), n), organization_id, application_id, 'user.created', 1, 1, n, 10,
    numbered('8000', (n - :from) * 2419200000 / (:to - :from), n), numbered('8000', (n - :from) * 2419200000 / (:to - :from), n + 9), 1, 0,
    convert_to(repeat('x', 200), 'UTF8')
FROM generate_series(:from, :to - 1, 10) n, (SELECT organization_id, application_id FROM endpoints WHERE lane = 1) o;

INSERT INTO deliveries (lane, id, event_id, priority, stage, attempts, retry_schedule, ended_at, created_at)
SELECT n % 1000 + 1, numbered('8000', (n / 10 * 10 - :from) * 2419200000 / (:to - :from), n),
    numbered('9000', (n / 10 * 10 - :from) * 2419200000 / (:to - :from), n / 10 * 10), 1, 1, 1, 1, 1, 1
FROM generate_series(:from, :to - 1) n;

INSERT INTO attempts (delivery_id, number, status, breaker, node, duration, scheduled_at, picked_after, executed_after)
SELECT numbered('8000', (n / 10 * 10 - :from) * 2419200000 / (:to - :from), n), 1, 0, 0, 1, 1000, 1, 1, 1
FROM generate_series(:from, :to - 1) n;
