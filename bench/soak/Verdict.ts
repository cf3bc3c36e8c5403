/** Conditions that must hold when all is over: each function returns the violations. */
import * as Mounts from "@slipway/machine/testing/Mounts"
import { processesOf } from "@slipway/machine/testing/SpawnedProgram"
import { readdirSync } from "node:fs"
import type * as Partner from "../../packages/slipway/testing/Partner.ts"
import type { Rows } from "../../packages/slipway/testing/Readers.ts"
import type { Acknowledged } from "./People.ts"
import type { Slope } from "./Watch.ts"

type Wrong = Promise<Array<string>>

const LIVE = "status NOT IN ('succeeded', 'failed', 'terminated') OR work IS NOT NULL"

/** Sandboxes that are not over, or that somebody has work with. */
export const live = async (rows: Rows): Wrong =>
  (await rows(`SELECT id, status, work FROM sandboxes WHERE ${LIVE}`)).map((row) => `still there: ${JSON.stringify(row)}`)

/** Acknowledged work is true, and no unacknowledged sandbox exists: each creation was tried until it was acknowledged. */
export const acknowledged = async (rows: Rows, all: Iterable<Acknowledged>): Wrong => {
  const wrong: Array<string> = []
  const stored = new Map((await rows("SELECT id, status, title FROM sandboxes")).map((row) => [row["id"], row]))
  let count = 0
  for (const { approvals, id, key, terminated, turns } of all) {
    count++
    const row = stored.get(id)
    const status = String(row?.["status"])
    if (row === undefined) wrong.push(`${id} was acknowledged, and is lost`)
    else if (row["title"] !== key) wrong.push(`${id} is not what ${key} created`)
    else if (terminated && status !== "terminated" && status !== "failed") wrong.push(`${id}: its termination is lost`)

    const outcomes = new Map(
      (await rows(`SELECT approval_id, outcome FROM approvals WHERE sandbox_id = '${id}'`)).map((
        row
      ) => [row["approval_id"], row["outcome"]])
    )
    for (const [approval, decision] of approvals) {
      const wanted = decision === "approve" ? "approved" : "denied"
      if (outcomes.get(approval) !== wanted) wrong.push(`${id}: ${approval} was ${wanted}, and is ${String(outcomes.get(approval))}`)
    }

    const ends = await rows(`SELECT wire FROM sandbox_events WHERE sandbox_id = '${id}' AND type = 'turn.completed'`)
    for (const turn of turns) {
      const times = ends.filter(({ wire }) => String(wire).includes(`"turn_id":"${turn}"`)).length
      if (times !== 1) wrong.push(`${id}: turn ${turn} was acknowledged, and ended ${times} times`)
    }
  }
  if (stored.size !== count) wrong.push(`${count} creations were acknowledged, and there are ${stored.size} sandboxes`)
  return wrong
}

/** One pull request and one branch for each that was published. `branches`: of the repository that is published to. */
export const pulls = async (rows: Rows, published: ReadonlyArray<Acknowledged>, branches: ReadonlyArray<string>): Wrong => {
  const found = await rows("SELECT head_ref, count(*)::int AS count FROM local_pull_requests GROUP BY head_ref")
  const heads = found.map(({ head_ref }) => String(head_ref))
  const ofSandboxes = branches.map((name) => /c_[a-z2-9]{12}/u.exec(name)?.[0])
  return [
    ...found.filter(({ count }) => count !== 1).map(({ count, head_ref }) => `${String(head_ref)} has ${String(count)} pull requests`),
    ...published.filter(({ id }) => !heads.some((head) => head.includes(id))).map(({ id }) =>
      `${id} was published, and has no pull request`
    ),
    ...new Set(ofSandboxes).size === branches.length ? [] : ["a sandbox has two branches"]
  ]
}

/** The feed has no gaps and tells each fact once; webhooks brought all of it in order. */
export const told = async (rows: Rows, feed: ReadonlyArray<Partner.FeedEvent>, taken: ReadonlyArray<string>): Wrong => {
  const order = new Map(feed.map(({ id, sequence }) => [id, sequence]))
  const [facts] = await rows(
    "SELECT (SELECT count(*)::int FROM sandboxes) AS tasks, (SELECT count(*)::int FROM local_pull_requests) AS pulls"
  )
  const count = (type: string) => feed.filter((event) => event.type === type).length
  const isInOrder = taken.length === feed.length && taken.every((id, i) => order.get(id) === i + 1)
  return [
    ...feed.every(({ sequence }, i) => sequence === i + 1) ? [] : ["the feed has gaps"],
    ...isInOrder ? [] : [`webhooks brought ${taken.length} of ${feed.length} events, or in another order`],
    ...count("task.started") === facts?.["tasks"] ? [] : [`${count("task.started")} tasks were told of, of ${String(facts?.["tasks"])}`],
    ...count("pull_request.opened") === facts?.["pulls"]
      ? []
      : [`${count("pull_request.opened")} pull requests were told of, of ${String(facts?.["pulls"])}`]
  ]
}

/**
 * Neither process nor mount nor folder of a sandbox nor lease. One whose worker was lost keeps its name until another one takes it, though
 * nothing is held any more. `machines`: the folder with those of all machines.
 */
export const left = async (rows: Rows, machines: string): Wrong => [
  ...processesOf(machines).map((process) => `still runs: ${process}`),
  ...Mounts.below(machines).map((mount) => `still mounted: ${mount}`),
  ...readdirSync(machines, { recursive: true, encoding: "utf8" }).filter((entry) => /(?:^|\/)c_[a-z2-9]{12}$/u.test(entry))
    .map((entry) => `still on a disk: ${entry}`),
  ...(await rows("SELECT id FROM sandboxes WHERE worker IS NOT NULL AND lease_until > now()")).map(({ id }) =>
    `still leased: ${String(id)}`
  )
]

/**
 * The allowed growth of a process between the second and the last third of the time: V8 collects late. For memory the larger one counts.
 */
const GROWTH = { mebibytes: 24, share: 0.15, descriptors: 40 }

export const grown = (slopes: ReadonlyArray<Slope>): Array<string> =>
  slopes.flatMap(({ descriptors: [d1, d2], mebibytes: [m1, m2], name }) => [
    ...m2 - m1 > Math.max(GROWTH.mebibytes, m1 * GROWTH.share) ? [`${name} grew from ${m1.toFixed(0)} to ${m2.toFixed(0)} MiB`] : [],
    ...d2 - d1 > GROWTH.descriptors ? [`${name} had ${d1} descriptors, then ${d2}`] : []
  ])
