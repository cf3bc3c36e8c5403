/** Going back to a checkpoint of a sandbox, and forking it: what is asked first, and what is done. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { Ids } from "@slipway/domain/ids/Ids"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { Effect } from "effect"
import { html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { idOf, noSandbox } from "./SandboxPage.ts"

type Handler = Page.Handler<Page.Member>

const noCheckpoint = Refused.notFound("Checkpoint not found or expired.")

const conflict = ({ message }: { readonly message: string }) =>
  Effect.fail(new Refused({ status: 409, title: "Not possible right now", text: message }))

const notFound = { SandboxNotFound: () => Effect.fail(noSandbox), CheckpointNotFound: () => Effect.fail(noCheckpoint) }

const numberOf = (given: string | null): Effect.Effect<number, Refused> =>
  given !== null && /^[1-9]\d{0,8}$/u.test(given) ? Effect.succeed(Number(given)) : Effect.fail(noCheckpoint)

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const ids = yield* Ids

  const askToRestore: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, title } = yield* sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const checkpoint = yield* numberOf(asked.url.searchParams.get("checkpoint"))
    const heading = `Restore checkpoint ${checkpoint}?`
    const body = html`<h1>${heading}</h1>
<p>The files and the agent's conversation of <strong>${title}</strong> become those of the checkpoint. Later unpublished changes are
removed from the files; later checkpoints are kept.</p>
<div class="actions"><form method="post" action="/sandboxes/${id}/restore">${member.csrf}
<input type="hidden" name="checkpoint" value="${checkpoint}"><button class="danger">Restore</button></form>
<a class="button quiet" href="/sandboxes/${id}">Cancel</a></div>`
    return Page.show({ title: heading, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound.SandboxNotFound))

  const restore: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const checkpoint = yield* numberOf(yield* asked.form.one("checkpoint"))
      const { outcome, rejection } = yield* sandboxes.restore(principalOf(member.visit), id, checkpoint)
      return Page.redirect(`/sandboxes/${id}?done=${outcome === "applied" ? "restoring" : rejection ?? "duplicate"}`)
    },
    Effect.catchTags({ ...notFound, SandboxNotRunning: conflict })
  )

  const askToFork: Handler = Effect.fnUntraced(function*(member, asked) {
    const { id, model, title } = yield* sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const checkpoint = yield* numberOf(asked.url.searchParams.get("checkpoint"))
    const heading = `Fork from checkpoint ${checkpoint}`
    const body = html`<h1>${heading}</h1>
<p>Starts a new sandbox from <strong>${title}</strong> at this checkpoint. ${title} is not changed.</p>
<form method="post" action="/sandboxes/${id}/fork">${member.csrf}
<input type="hidden" name="checkpoint" value="${checkpoint}"><input type="hidden" name="key" value="${yield* ids.uuid7}">
<div class="field"><label for="prompt">What should the agent do?</label>
<textarea id="prompt" name="prompt" required maxlength="60000"></textarea>
<p class="hint">Model: ${model}.</p></div>
<div class="actions"><button>Fork</button> <a class="button quiet" href="/sandboxes/${id}">Cancel</a></div>
</form>`
    return Page.show({ title: heading, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound.SandboxNotFound))

  const fork: Handler = Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const checkpoint = yield* numberOf(yield* asked.form.one("checkpoint"))
      const prompt = (yield* asked.form.one("prompt")).replaceAll("\r\n", "\n")
      // Sent twice, it is one fork.
      const key = yield* asked.form.one("key")
      const request = yield* Requests.fork({ prompt, checkpoint })
      const { sandbox } = yield* sandboxes.fork(principalOf(member.visit), id, request, yield* Requests.idempotencyKey(key))
      return Page.redirect(`/sandboxes/${sandbox.id}`)
    },
    Effect.catchTags({
      ...notFound,
      InvalidRequest: () => Effect.fail(Refused.bad("Describe the task (up to 60,000 characters).")),
      RepoNotAccessible: ({ message }) => Effect.fail(new Refused({ status: 403, title: "Not accessible", text: `The ${message}.` })),
      ApprovalsUnsupported: conflict,
      BudgetExceeded: conflict,
      ConcurrencyLimitExceeded: conflict,
      CreationDenied: ({ message }) => Effect.fail(new Refused({ status: 403, title: "Not allowed", text: message })),
      FilesUnsupported: conflict,
      IdempotencyConflict: conflict,
      InvalidModel: conflict,
      InvalidReasoningEffort: conflict,
      NoCheckpoint: conflict,
      NoCredits: conflict,
      PromptFileNotFound: conflict,
      SandboxDeleted: conflict,
      TooManyFiles: conflict
    })
  )

  return { askToRestore, restore, askToFork, fork }
})
