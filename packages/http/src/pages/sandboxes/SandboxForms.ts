/** What the forms of a sandbox's page do: as the public API does it, answered by the page again. */
import { principalOf } from "@slipway/domain/access/Session"
import { Publishing } from "@slipway/domain/publishing/Publishing"
import { ApprovalId, Decision, outcomeOf } from "@slipway/domain/sandbox/Approval"
import { type CommandResult } from "@slipway/domain/sandbox/Command"
import { Sandboxes } from "@slipway/domain/sandbox/Sandboxes"
import type { SandboxId } from "@slipway/domain/SandboxId"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { Effect, Option, Schema } from "effect"
import { html } from "../Html.ts"
import * as Page from "../Page.ts"
import { Refused } from "../Refused.ts"
import { idOf, type MESSAGES, noSandbox } from "./SandboxPage.ts"

type Handler = Page.Handler<Page.Member>

const conflict = (text: string) => new Refused({ status: 409, title: "Not as things stand", text })

const back = (id: SandboxId, done: keyof typeof MESSAGES) => Page.redirect(`/sandboxes/${id}?done=${done}`)

const answered = (id: SandboxId, { outcome, rejection }: CommandResult, applied: keyof typeof MESSAGES) =>
  back(id, outcome === "applied" ? applied : rejection ?? "duplicate")

const notFound = () => Effect.fail(noSandbox)

const decodeApproval = Schema.decodeUnknownOption(ApprovalId)
const decodeDecision = Schema.decodeUnknownOption(Decision)
const decodeRepo = Schema.decodeUnknownOption(RepoName)

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const publishing = yield* Publishing

  const decide: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const approval = decodeApproval(asked.params["approvalId"])
      const decision = decodeDecision(yield* asked.form.one("decision"))
      if (Option.isNone(approval)) return yield* Refused.notFound("There is no such approval.")
      if (Option.isNone(decision)) return yield* Refused.bad("An approval is approved or denied.")
      const result = yield* sandboxes.decideApproval(principalOf(member.visit), id, approval.value, decision.value)
      return answered(id, result, outcomeOf[decision.value])
    },
    Effect.catchTags({
      InvalidRequest: Effect.die,
      SandboxNotFound: notFound,
      ApprovalNotFound: () => Effect.fail(Refused.notFound("There is no such approval."))
    })
  )

  const interrupt: Handler = Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    return answered(id, yield* sandboxes.interrupt(principalOf(member.visit), id), "interrupted")
  }, Effect.catchTag("SandboxNotFound", notFound))

  const askToTerminate: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, title } = yield* sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const body = html`<h1>Terminate this sandbox?</h1>
<p><strong>${title}</strong> ends for good. What its agent made and nobody published is lost; the conversation stays.</p>
<div class="actions"><form method="post" action="/sandboxes/${id}/terminate">${member.csrf}<button class="danger">Terminate</button></form>
<a class="button quiet" href="/sandboxes/${id}">Keep it</a></div>`
    return Page.show({ title: "Terminate this sandbox?", place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound))

  const terminate: Handler = Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    return answered(id, yield* sandboxes.terminate(principalOf(member.visit), id), "terminated")
  }, Effect.catchTag("SandboxNotFound", notFound))

  const send: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      // Browsers send the line ends of the web's forms.
      const prompt = (yield* asked.form.one("prompt")).replaceAll("\r\n", "\n")
      yield* sandboxes.sendMessage(principalOf(member.visit), id, prompt, Option.none())
      return back(id, "sent")
    },
    Effect.catchTags({
      InvalidRequest: () => Effect.fail(Refused.bad("A message has 1 to 60,000 characters.")),
      SandboxNotFound: notFound,
      SandboxNotRunning: ({ message }) => Effect.fail(conflict(message)),
      TurnActive: ({ message }) => Effect.fail(conflict(message)),
      BudgetExceeded: ({ message }) => Effect.fail(conflict(message)),
      NoCredits: ({ message }) => Effect.fail(conflict(message)),
      IdempotencyConflict: Effect.die
    })
  )

  const publish: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const repo = decodeRepo(yield* asked.form.one("repo"))
      if (Option.isNone(repo)) return yield* Refused.bad("A repository is named owner/name.")
      return yield* publishing.publish(principalOf(member.visit), id, repo.value).pipe(
        Effect.map((status) =>
          back(id, status.actionState === "publishing" || status.actionState === "updating" ? "publishing" : "published")
        ),
        Effect.catchTag("NothingToPublish", () => Effect.succeed(back(id, "nothing")))
      )
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      RepoNotFound: ({ message }) => Effect.fail(Refused.notFound(message)),
      RepoRequired: ({ message }) => Effect.fail(Refused.bad(message)),
      RepoNotAccessible: ({ message }) => Effect.fail(new Refused({ status: 403, title: "Not accessible", text: `The ${message}.` })),
      SandboxNotRunning: ({ message }) => Effect.fail(conflict(message)),
      SourceHostError: ({ detail }) => Effect.fail(new Refused({ status: 502, title: "It could not be published", text: detail }))
    })
  )

  return { decide, interrupt, askToTerminate, terminate, send, publish }
})
