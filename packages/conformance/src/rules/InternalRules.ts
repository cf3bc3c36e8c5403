/** Endpoints beside the public interface, which a server may lack: comments and checks of pull requests, and automations. */
import { answered, refused, type Reply } from "../client/Client.ts"
import { count, filled, fits, flag, is, listOf, nullOr, object, same, type Shape, Skip, text } from "../client/Expect.ts"
import type { World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const INTERNAL = "/api/internal/v1"

const running = { needs: ["repo"] } as const

const reviews: Shape = object({
  repository: filled,
  pullRequest: nullOr(object({ number: count, url: filled, title: text, state: is("draft", "open", "merged", "closed") })),
  comments: listOf(object({
    id: count,
    author: text,
    path: nullOr(text),
    line: nullOr(count),
    outdated: flag,
    text,
    truncated: flag,
    url: text,
    createdAt: text,
    updatedAt: text
  })),
  commentCount: count,
  checks: object({
    state: is("idle", "pending", "success", "failure", "error"),
    label: text,
    data: listOf(object({ name: text, status: text, conclusion: nullOr(text), url: text })),
    count
  }),
  detailsPending: flag
})

const read = async (world: World, id: string): Promise<Reply> =>
  await world.http.ask(`${INTERNAL}/sandboxes/${id}/pull-request/reviews`, { key: world.options.key })

/** The reviews of a sandbox. */
const reviewsOf = async (world: World, id: string) => {
  const reply = await read(world, id)
  if (reply.status === 404) throw new Skip("the server has no reviews of pull requests")
  const { json } = answered(reply, 200, "the reviews")
  fits(json.value, reviews, "")
  return json
}

const pulls = rulesOf("pull-request", "docs/decisions/24")

/** The rules of this file. */
export const rules = [
  pulls(
    "reviews",
    "The reviews of a published sandbox name its pull request, with the texts of comments, and its checks.",
    async (world) => {
      const box = await world.changed()
      const status = answered(await box.ask("/pull-request", { method: "POST" }), 200, "publishing").json
      const found = await reviewsOf(world, box.id)
      same(found.at("pullRequest").at("number").value, status.at("pullRequest").at("number").value, "number")
      same(found.at("commentCount").value, found.at("comments").items.length, "comments of a new pull request")
      same(found.at("repository").value, world.repo, "repository")
    },
    running
  ),
  pulls("reviews-before", "Before anything is published there are no reviews: 200 and empty lists.", async (world) => {
    const found = await reviewsOf(world, (await world.busy()).id)
    same(
      [found.at("pullRequest").value, found.at("comments").items.length, found.at("checks").at("data").items.length],
      [null, 0, 0],
      "pullRequest, comments and checks"
    )
  }, running),
  rulesOf("authentication", "docs/decisions/30")(
    "automation-unsigned",
    "An unsigned request to the address of an automation is 401, whether or not there is one.",
    async (world) => {
      const path = `${INTERNAL}/automations/0192f5a0-5c3e-4b1c-9b7e-2f4a8c6d1eff/trigger`
      const now = String(Math.floor(Date.now() / 1000))
      for (const signature of [undefined, "v1,AAAA"]) {
        const headers = signature === undefined
          ? {}
          : { "webhook-id": "msg_1", "webhook-timestamp": now, "webhook-signature": signature }
        const reply = await world.http.ask(path, { method: "POST", headers, body: {} })
        if (reply.status === 404) throw new Skip("the server has no automations")
        refused(reply, 401, "unauthorized", "an unsigned request")
      }
    }
  )
]
