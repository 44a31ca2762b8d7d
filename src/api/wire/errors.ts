/** Owns errors on the wire: their body, and the one map from ErrorCode to HTTP status. */
import type { ErrorCode } from '../../base/errors.js';

/** Body of an error answer when the caller accepts application/json; others get Message as text. */
export interface ErrorBody {
  readonly Code: ErrorCode;
  readonly Message: string;
}

const HTTP_STATUS: Readonly<Record<ErrorCode, number>> = {
  agent_leaving: 503,
  already_running: 409,
  ambiguous: 400,
  bad_request: 400,
  cancelled: 503,
  conflict: 409,
  driver_config_invalid: 400,
  driver_not_found: 400,
  executor_failed: 500,
  executor_missing: 500,
  executor_unreachable: 503,
  hook_failed: 500,
  internal: 500,
  job_invalid: 400,
  kill_failed: 500,
  not_found: 404,
  not_permitted: 403,
  not_running: 409,
  protocol_error: 502,
  schema_too_new: 500,
  signal_unknown: 400,
  start_failed: 500,
  store_corrupt: 500,
  store_locked: 503,
  store_unavailable: 503,
  timeout: 504,
  too_many: 429,
  wrong_host: 500,
};

/** The HTTP status of an error. The only such map. */
export function httpStatusOf(code: ErrorCode): number {
  return HTTP_STATUS[code];
}
