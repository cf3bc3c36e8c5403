/** `/sandboxes/:id/send-back`: a message to the agent that asks for changes of its pull request, from failed checks and comments. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { MAX_WAITING } from "@slipway/domain/sandbox/rules/MessageQueue"
import { publicationOf, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import { isActive } from "@slipway/domain/sandbox/rules/Turn"
import { MAX_PROMPT } from "@slipway/domain/sandbox/schema/Command"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import type { CommentWithText } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Duration, Effect, Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import * as PullDetails from "../../shared/PullDetails.ts"
import { type CachedPullRequest, LOOKED_AT, PullRequestCache } from "../../shared/PullRequestCache.ts"
import { breadcrumb, idOf, noSandbox } from "./SandboxPage.ts"

const decodeRepo = Schema.decodeUnknownOption(RepoName)

/** How long the form waits for the source host; without an answer it is empty. */
const PATIENCE = Duration.seconds(2)
/** Characters of the prepared message, invisible ones as their names: comments beyond them are left out, the oldest first. */
const MAX_PREPARED = 20_000

/** As a quotation, because it is a person's text and not the sender's. */
const quoted = ({ author, isWhole, line, path, text }: CommentWithText): string => {
  const place = path === null ? "" : ` on ${path}${line === null ? "" : `:${line}`}`
  const said = text.split(/\r?\n/u).map((one) => `> ${one}`.trimEnd()).join("\n")
  return visible(`${author}${place}:\n${said}${isWhole ? "" : "\n> …"}`)
}

/** The message as far as it is known: the failed checks, and the newest comments that fit. */
const prepared = (number: number, { comments, status }: CachedPullRequest): string => {
  const failed = PullDetails.failedOf(status.checks).map(({ conclusion, name, url }) => visible(`- ${name}: ${conclusion ?? ""} ${url}`))
  const fixing = failed.length === 0 ? "" : `Fix the failed checks:\n${failed.join("\n")}`.slice(0, MAX_PREPARED)
  const kept: Array<string> = []
  let left = MAX_PREPARED - fixing.length
  for (const comment of comments.toReversed()) {
    const text = quoted(comment)
    if (text.length > left) break
    left -= text.length
    kept.unshift(text)
  }
  const answering = kept.length === 0 ? "" : `Address the comments:\n\n${kept.join("\n\n")}`
  const parts = [fixing, answering].filter((part) => part !== "")
  return [`Pull request #${number} needs changes.`, ...(parts.length === 0 ? [""] : parts)].join("\n\n")
}

/** Why the sandbox takes no message, and what helps; `null`: it takes one. */
const refusalOf = ({ id, status, waiting }: Sandbox): Html | null => {
  const sandbox = html`<a href="/sandboxes/${id}">its sandbox</a>`
  switch (status) {
    case "running":
      return waiting.length < MAX_WAITING ? null : html`The queue of ${sandbox} is full (${MAX_WAITING}). Cancel a message or wait.`
    case "queued":
    case "creating":
      return html`The agent takes messages once ${sandbox} has started.`
    default:
      return html`The sandbox has ended and takes no messages. <a href="/sandboxes/${id}?view=checkpoints">Fork it from a checkpoint</a>, or
<a href="/new">start another one</a>.`
  }
}

const form = (sandbox: Sandbox, message: string, csrf: Html, back: string): Html => {
  const isBusy = isActive(sandbox.turn)
  return html`<form method="post" action="/sandboxes/${sandbox.id}/messages">${csrf}<input type="hidden" name="whenBusy" value="queue">
<div class="field"><label for="prompt">What should change?</label>
<textarea id="prompt" name="prompt" required rows="14" data-longest="${MAX_PROMPT}"${isBusy && html` aria-describedby="prompt-hint"`}>
${message}</textarea>
${isBusy && html`<p class="hint" id="prompt-hint">The agent is working. Your message is sent when it finishes.</p>`}</div>
<div class="actions"><button>${isBusy ? "Queue" : "Send"}</button> <a class="button quiet" href="${back}">Cancel</a></div>
</form>`
}

export const make = Effect.gen(function*() {
  const sandboxes = yield* Sandboxes
  const known = yield* PullRequestCache

  const get: Page.Handler<Page.Member> = Effect.fnUntraced(function*(member, asked) {
    const by = principalOf(member.visit)
    const sandbox = yield* sandboxes.get(by, yield* idOf(asked))
    const repo = decodeRepo(asked.url.searchParams.get("repo"))
    const number = Option.isNone(repo) ? null : publicationOf(sandbox, repo.value)?.number ?? null
    if (Option.isNone(repo) || number === null) return yield* Refused.notFound("Pull request not found.")
    const found = yield* known.find(by, sandbox, repo.value, { holds: LOOKED_AT, patience: PATIENCE })
    const isKnown = typeof found !== "string"
    const message = isKnown ? prepared(number, found) : `Pull request #${number} needs changes.\n\n`
    const refusal = refusalOf(sandbox)
    const back = Page.localPath(asked.url.searchParams.get("next") ?? "") ?? `/sandboxes/${sandbox.id}?view=pull`
    const again = html`<a href="/sandboxes/${sandbox.id}/send-back${asked.url.search}">Retry</a>`
    const unknown = !isKnown && html`<p class="warning">Checks and comments are not loaded. ${again}</p>`
    const title = `Send #${number} back to the agent`
    const shown = refusal === null
      ? form(sandbox, message, member.csrf, back)
      : html`<p class="warning">${refusal}</p>
<p><a class="button quiet" href="${back}">Back</a></p>`
    const body = html`${breadcrumb(sandbox)}
<h1>${title}</h1>
${unknown}
${shown}`
    return Page.show({ title, place: "pulls", body }, member)
  }, Effect.catchTag("SandboxNotFound", () => Effect.fail(noSandbox)))

  return get
})
