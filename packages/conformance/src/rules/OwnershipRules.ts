/** Another grant's sandbox must give exactly the answers of a sandbox that does not exist. */
import type { Reply } from "../client/Client.ts"
import { refused, answered } from "../client/Client.ts"
import { same } from "../client/Expect.ts"
import { UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("ownership", "docs/decisions/1")

const paths: ReadonlyArray<readonly [name: string, method: string, path: string, body?: object]> = [
  ["sandbox", "GET", ""],
  ["terminate", "POST", "/terminate"],
  ["interrupt", "POST", "/interrupt"],
  ["restore", "POST", "/restore", { checkpoint: 1 }],
  ["sync", "POST", "/sync"],
  ["feedback", "POST", "/feedback", { text: "x" }],
  ["resume-feedback", "POST", "/feedback/resume"],
  ["fork", "POST", "/fork", { prompt: "x" }],
  ["approval", "POST", "/approvals/<approval>", { decision: "approve" }],
  ["send-message", "POST", "/messages", { prompt: "x" }],
  ["messages", "GET", "/messages"],
  ["checkpoints", "GET", "/checkpoints"],
  ["setup", "GET", "/setup"],
  ["events", "GET", "/events"],
  ["stream", "GET", "/events/stream"],
  ["tree", "GET", "/files/tree"],
  ["download", "GET", "/files/download?path=README.md"],
  ["content", "GET", "/files/content?path=README.md"],
  ["diff", "GET", "/files/diff"],
  ["publish", "POST", "/pull-request", {}],
  ["pull-request", "GET", "/pull-request"]
]

/** The parts of a reply that do not differ between any two. */
const told = ({ headers, status, text }: Reply) => {
  const { date: _date, ratelimit: _ratelimit, "x-request-id": _id, ...rest } = headers
  return { status, headers: rest, text }
}

const foreign = async (world: World, method: string, path: string, body?: object) => {
  const { approval, box } = await world.foreign()
  const ask = { method, ...(body === undefined ? {} : { body }), key: world.options.key }
  const rest = path.replace("<approval>", encodeURIComponent(approval))
  return {
    theirs: await world.http.ask(`${box.path}${rest}`, ask),
    nobodys: await world.http.ask(`${UNKNOWN}${rest}`, ask)
  }
}

/** The rules of this file. */
export const rules = [
  ...paths.map(([name, method, path, body]) =>
    rule(
      name,
      `${method} ${path === "" ? "of the sandbox" : path.replace(/\?.*/u, "")} answers for another grant's sandbox as for an unknown one.`,
      async (world) => {
        const { nobodys, theirs } = await foreign(world, method, path, body)
        refused(theirs, 404, "not_found", "another grant's sandbox")
        same(told(theirs), told(nobodys), "the answer:")
      },
      { needs: ["repo", "other-key"] }
    )
  ),
  rule("untouched", "Commands of another grant change nothing.", async (world) => {
    const { box } = await world.foreign()
    for (const [, method, path, body] of paths) if (method === "POST") await foreign(world, method, path, body)
    const json = answered(await world.get(box), 200, "the sandbox").json
    same([json.at("status").value, json.at("turn").value], ["running", { active: true }], "status and turn")
  }, { needs: ["repo", "other-key"] })
]
