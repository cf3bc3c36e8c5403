/**
 * Calls that wait at the same time share a statement: group commit for writes, one round trip for reads. No call waits for a timer:
 * calls of one turn of the event loop go together, and the next batch gathers while one is on its way.
 */
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Cause, Context, Effect, Exit } from "effect"
import { type SqlClient, SqlError } from "effect/sql"
import { AnswerMillis, guard, unanswered, wasRefused } from "./SqlFailure.ts"

export interface Options<In, Out, E> {
  /** Whose transactions a call may be within: such a call goes alone, at once. */
  readonly client: Pick<SqlClient.SqlClient, "transactionService">
  /**
   * The outcome of each request, in their order, in one transaction: if it fails, nothing was done for any of them. Runs with the
   * context of the first request, and goes on if its caller is interrupted.
   */
  readonly run: (requests: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Exit.Exit<Out, E>>, SqlError.SqlError>
  /** Requests of one batch. */
  readonly most: number
  /** Batches on their way at once. */
  readonly underWay: number
  /** The weight of a request, and of a batch at most: a batch with that weight takes no further request. */
  readonly weight?: { readonly of: (request: In) => number; readonly most: number }
  /** Two requests of which this says the same are in different batches, in their order; `null`: it does not matter. */
  readonly apart?: (request: In) => string | null
}

interface Waiting<In, Out, E> {
  readonly request: In
  readonly context: Context.Context<never>
  readonly resume: (outcome: Exit.Exit<Out, E | StoreUnavailable>) => void
}

const MISSING = Exit.die("a request of a batch has no outcome")

/** One request may have made the transaction fail: then the others succeed in transactions of their own. */
const mayGoAlone = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.every((reason) => {
    if (Cause.isInterruptReason(reason)) return false
    const error = Cause.isFailReason(reason) ? reason.error : reason.defect
    return !SqlError.isSqlError(error) || wasRefused(error)
  })

/** One request's share of `run`. As with `guard`, temporary trouble is `StoreUnavailable`, and is answered in time. */
export const make = <In, Out, E = never>({ apart, client, most, run, underWay, weight }: Options<In, Out, E>) => {
  type Entry = Waiting<In, Out, E>
  const alone = (request: In): Effect.Effect<Out, E | StoreUnavailable> =>
    Effect.flatMap(guard(run([request])), ([outcome = MISSING]) => outcome)
  const together = (requests: ReadonlyArray<In>) =>
    run(requests).pipe(
      Effect.catchCause((cause) =>
        mayGoAlone(cause)
          ? Effect.forEach(requests, (request) => Effect.exit(alone(request)), { concurrency: "unbounded" })
          : Effect.failCause(cause)
      ),
      guard
    )

  const queue: Array<Entry> = []
  let running = 0
  let scheduled = false

  /** The first that wait, as many as go together. */
  const take = (): ReadonlyArray<Entry> => {
    const batch: Array<Entry> = []
    const left: Array<Entry> = []
    const taken = new Set<string>()
    let weighs = 0
    for (const entry of queue) {
      const name = apart?.(entry.request) ?? null
      if (batch.length >= most || weight !== undefined && weighs >= weight.most || name !== null && taken.has(name)) left.push(entry)
      else {
        batch.push(entry)
        weighs += weight?.of(entry.request) ?? 0
      }
      if (name !== null) taken.add(name)
    }
    queue.splice(0, queue.length, ...left)
    return batch
  }

  const start = () => {
    scheduled = false
    while (running < underWay && queue.length > 0) {
      const batch = take()
      const [first] = batch
      if (first === undefined) return
      running++
      Effect.runForkWith(first.context)(
        batch.length === 1
          ? Effect.map(Effect.exit(alone(first.request)), (outcome) => [outcome])
          : together(batch.map(({ request }) => request))
      )
        .addObserver((exit) => {
          running--
          if (queue.length > 0) start()
          for (const [i, { resume }] of batch.entries()) {
            resume(Exit.isSuccess(exit) ? exit.value[i] ?? MISSING : Exit.failCause(exit.cause))
          }
        })
    }
  }

  return (request: In): Effect.Effect<Out, E | StoreUnavailable> =>
    Effect.contextWith((context: Context.Context<never>) =>
      Context.getOrUndefined(context, client.transactionService) !== undefined ? alone(request) : Effect.callback((resume) => {
        const millis = Context.get(context, AnswerMillis)
        const entry: Entry = {
          request,
          context,
          resume(outcome) {
            clearTimeout(timer)
            resume(outcome)
          }
        }
        const forget = () => {
          clearTimeout(timer)
          const at = queue.indexOf(entry)
          if (at >= 0) queue.splice(at, 1)
        }
        const timer = setTimeout(() => {
          forget()
          resume(Effect.fail(unanswered(millis)))
        }, millis)
        queue.push(entry)
        if (!scheduled && running < underWay) {
          scheduled = true
          setImmediate(start)
        }
        return Effect.sync(forget)
      })
    )
}

/** For each request the row with its number, from 1, as `WITH ORDINALITY` counts; `null`: no row has it. */
export const placed = <Row>(
  requests: { readonly length: number },
  rows: ReadonlyArray<Row>,
  numberOf: (row: Row) => unknown
): ReadonlyArray<Exit.Exit<Row | null>> => {
  const outcomes: Array<Exit.Exit<Row | null>> = Array.from(requests, () => Exit.succeed(null))
  for (const row of rows) outcomes[Number(numberOf(row)) - 1] = Exit.succeed(row)
  return outcomes
}
