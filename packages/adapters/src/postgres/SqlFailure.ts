/** What a failed statement means to a caller of a port. */
import { Effect, Schema } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "@slipway/domain/sandbox/SandboxStore"

type Failure = SqlError.SqlError | Schema.SchemaError

const isFailure = (error: unknown): error is Failure => SqlError.isSqlError(error) || Schema.isSchemaError(error)

/**
 * Trouble that passes and that the driver does not know as such: out of connections, memory or disk (class 53), a server that
 * shuts down, crashed or is starting (57P01 to 57P03), a standby before it is promoted (25006).
 * PostgreSQL 18, appendix A.
 */
const PASSING = /^(?:53...|57P0[1-3]|25006)$/u

const passes = (error: SqlError.SqlError): boolean => {
  const { cause } = error.reason
  return error.isRetryable || cause instanceof Error && "code" in cause && typeof cause.code === "string" && PASSING.test(cause.code)
}

/**
 * Trouble that passes (connection, lock, timeout, deadlock) becomes `StoreUnavailable`; any other failure is a bug in
 * our SQL or data and dies. The port's own errors pass.
 */
export const guard = <A, E, R>(self: Effect.Effect<A, E | Failure, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | Failure, Failure> => isFailure(error),
    (error) =>
      error._tag === "SqlError" && passes(error)
        ? Effect.fail(new StoreUnavailable({ cause: error }))
        : Effect.die(error)
  )
