-- What is known of the limits of a provider?
-- Index: the primary key. Lock: none.
SELECT revision, quarter_number, quarter_used, quarter_limit, day_number, day_used, day_limit FROM provider_rates WHERE provider = ?1;
