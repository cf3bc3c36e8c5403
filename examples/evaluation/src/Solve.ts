/** Has an agent work at a task in a sandbox of its own, and takes the changes. */
import type { SlipwayClient } from "@slipway/client"
import type { Task } from "./Task.ts"

export interface Solution {
  readonly sandbox: string
  /** How the turn ended; `timeout`: it took too long, or waits for a person. */
  readonly turn: string
  /** The changes as a patch; empty: none. */
  readonly patch: string
  readonly costMicroUsd: number
  readonly millis: number
}

export interface Options {
  readonly model: string | undefined
  readonly minutes: number
  /** Keeps the sandbox, to look at it. */
  readonly keeps: boolean
}

const endOf = async (client: SlipwayClient, id: string, signal: AbortSignal): Promise<string> => {
  for await (const event of client.streamEvents(id, { since: 0, signal })) {
    if (event.type === "turn.completed") return event.data.state
  }
  return signal.aborted ? "timeout" : (await client.getSandbox(id)).status
}

/**
 * `attempt`: with the task's id, the name of this run, so that a repeated creation finds the first sandbox. `keep` stores the solution
 * before the sandbox ends, which takes its files away.
 */
export const solve = async <A>(
  client: SlipwayClient,
  task: Task,
  attempt: string,
  { keeps, minutes, model }: Options,
  keep: (solution: Solution) => A
): Promise<A> => {
  const started = performance.now()
  const { id } = await client.createSandbox({
    repos: [{ fullName: task.repo, ref: task.base_commit }],
    prompt: task.problem_statement,
    title: task.instance_id,
    metadata: { evaluation: attempt },
    ...(model === undefined ? {} : { model })
  }, { idempotencyKey: `${attempt}-${task.instance_id}` })
  const turn = await endOf(client, id, AbortSignal.timeout(60_000 * minutes))
  const millis = Math.round(performance.now() - started)
  const patch = turn === "succeeded" ? new TextDecoder().decode(await client.diffFiles(id, { repo: task.repo })) : ""
  const { usage } = await client.getSandbox(id)
  const kept = keep({ sandbox: id, turn, patch, costMicroUsd: usage.costMicroUsd, millis })
  if (!keeps) await client.terminateSandbox(id)
  return kept
}
