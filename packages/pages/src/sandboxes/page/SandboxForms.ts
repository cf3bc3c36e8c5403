/** The forms of a sandbox's page: they do the same as the public API, and answer with the page. */
import { principalOf } from "@slipway/domain/access/rules/Session"
import { Uploads } from "@slipway/domain/files/usecases/Uploads"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Feedback } from "@slipway/domain/publishing/usecases/Feedback"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { KEPT_CHECKPOINTS } from "@slipway/domain/sandbox/ports/Checkpoints"
import { SandboxDashboard } from "@slipway/domain/sandbox/ports/SandboxDashboard"
import { outcomeOf } from "@slipway/domain/sandbox/rules/Approval"
import type { CommandResult } from "@slipway/domain/sandbox/rules/Command"
import { textOf } from "@slipway/domain/sandbox/rules/MessageQueue"
import { type QuestionReply, questionsOf } from "@slipway/domain/sandbox/rules/Question"
import { publicationOf } from "@slipway/domain/sandbox/rules/Sandbox"
import { ApprovalDecision, ApprovalId } from "@slipway/domain/sandbox/schema/Approval"
import { MAX_PROMPT, MAX_TITLE } from "@slipway/domain/sandbox/schema/Command"
import * as Requests from "@slipway/domain/sandbox/usecases/Requests"
import { Sandboxes } from "@slipway/domain/sandbox/usecases/Sandboxes"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Effect, Option, Schema } from "effect"
import { html, type Html } from "../../html/Html.ts"
import { Form, incomplete } from "../../layout/Form.ts"
import * as Page from "../../layout/Page.ts"
import { Refused } from "../../layout/Refused.ts"
import { labels } from "../../shared/SandboxLabels.ts"
import * as PromptFiles from "../create/PromptFiles.ts"
import * as MessageCommands from "./MessageCommands.ts"
import { questionCard, replyOf } from "./QuestionCards.ts"
import { breadcrumb, idOf, type MESSAGES, outcomesOf, noSandbox } from "./SandboxPage.ts"
import * as SandboxPieces from "./SandboxPieces.ts"
import { APPROVALS_BYTES } from "./SandboxPieces.ts"

type Handler = Page.Handler<Page.Member>

const conflict = (text: string) => new Refused({ status: 409, title: "Not possible right now", text })
const notPublished = (text: string) => new Refused({ status: 409, title: "Publishing failed", text })

const notFound = () => Effect.fail(noSandbox)

const noQuestion = Refused.notFound("Question not found.")
const noMessage = Refused.notFound("Message not found.")

/** Why the text is refused as a message. */
const unfit = (prompt: string): string => {
  const length = Array.from(prompt).length
  const says = length <= MAX_PROMPT ? "" : ` (yours: ${length.toLocaleString("en")})`
  return `Messages can have up to ${MAX_PROMPT.toLocaleString("en")} characters${says}.`
}

const decodeApproval = Schema.decodeUnknownOption(ApprovalId)
const decodeDecision = Schema.decodeUnknownOption(ApprovalDecision)
const decodeRepo = Schema.decodeUnknownOption(RepoName)

/** The address of the list with its filters; `null` if the form came from another page. */
const listOf = (next: string): URL | null => {
  const path = Page.localPath(next)
  const url = path === null ? null : new URL(path, "http://slipway.invalid")
  return url?.pathname === "/sandboxes" ? url : null
}

/** The services behind the forms. */
interface Services {
  readonly uploads: typeof Uploads.Service
  readonly dashboard: typeof SandboxDashboard.Service
  readonly sandboxes: typeof Sandboxes.Service
  readonly publishing: typeof Publishing.Service
  readonly feedback: Option.Option<typeof Feedback.Service>
  readonly pieces: Effect.Success<typeof SandboxPieces.make>
}

/** The page again; or, for its script, what there is to say and the pieces that people look at for what they did. */
const back = Effect.fnUntraced(function*(
  { pieces, sandboxes }: Services,
  member: Page.Member,
  asked: Page.Asked,
  id: SandboxId,
  done: keyof typeof MESSAGES,
  more: Html | false = false,
  repo: RepoName | null = null
) {
  const next = listOf(asked.form.all("next")[0] ?? "")
  if (next !== null) {
    next.searchParams.set("done", done)
    return Page.redirect(next.pathname + next.search)
  }
  if (asked.form.all("live").length === 0) {
    return Page.redirect(`/sandboxes/${id}?${new URLSearchParams({ done, ...(repo === null ? {} : { repo }) })}`)
  }
  const shown = SandboxPieces.shownTo(member, yield* sandboxes.get(principalOf(member.visit), id))
  const { approvals, commands, facts, message, pin, questions, queue, rename, state, title } = pieces
  const changed = yield* Effect.forEach(
    [title, state, facts, commands, approvals, questions, queue, message, rename, pin],
    ({ render }) => render(shown)
  )
  return Page.fragment(
    html`<p class="${Object.hasOwn(labels.rejection, done) ? "problem" : "told"}">${outcomesOf(shown.sandbox, repo)[done]}</p>
<div data-as-of="${shown.sandbox.lastSeq}">${changed}</div>${more}`
  )
})

const answered = (
  services: Services,
  member: Page.Member,
  asked: Page.Asked,
  id: SandboxId,
  { outcome, rejection }: CommandResult,
  applied: keyof typeof MESSAGES,
  more: Html | false = false
) => back(services, member, asked, id, outcome === "applied" ? applied : rejection ?? "duplicate", more)

const decide = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const approval = decodeApproval(asked.params["approvalId"])
      // The whole form is sent with each of its buttons, so the reason is an approval's too.
      const given = yield* asked.form.one("decision")
      const reason = (asked.form.all("reason")[0] ?? "").replaceAll("\r\n", "\n").trim()
      const decision = decodeDecision({
        decision: given === "approve_turn" ? "approve" : given,
        ...(given === "approve_turn" ? { scope: "turn" } : {}),
        ...(given === "deny" && reason !== "" ? { reason } : {})
      })
      if (Option.isNone(approval)) return yield* Refused.notFound("Approval not found.")
      if (Option.isNone(decision)) {
        return yield* Refused.bad("Choose Approve or Deny; a reason may have 2,000 characters.")
      }
      const result = yield* services.sandboxes.decideApproval(principalOf(member.visit), id, approval.value, decision.value)
      return yield* answered(
        services,
        member,
        asked,
        id,
        result,
        given === "approve_turn" ? "approved_turn" : outcomeOf[decision.value.decision]
      )
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      ApprovalNotFound: () => Effect.fail(Refused.notFound("Approval not found.")),
      ScopeUnsupported: ({ message }) => Effect.fail(conflict(message)),
      QueueFull: ({ message }) => Effect.fail(conflict(message))
    })
  )

/** The page of one approval, for approvals that the sandbox's page has no space for. */
const approval = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const sandbox = yield* services.sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const found = sandbox.approvals.find(({ approval_id }) => approval_id === asked.params["approvalId"])
    if (found === undefined) return yield* Refused.notFound("This approval is no longer waiting.")
    const card = SandboxPieces.approvalCard(sandbox, found, member.csrf, { bytes: APPROVALS_BYTES })
    const body = html`${breadcrumb(sandbox)}
<h1>Needs your approval</h1>
<ul class="approvals">${card}</ul>`
    return Page.show({ title: `Needs your approval: ${sandbox.title}`, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound))

/** Stands for the answers to a request that is over: they are refused, whatever they are, and not taken for a dismissal. */
const LATE: QuestionReply = { answers: { late: { text: "late" } } }

const answer = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const questionId = yield* Requests.questionId(asked.params["questionId"])
      const given = yield* asked.form.one("reply")
      const request = questionsOf(yield* services.sandboxes.get(by, id)).find(({ question_id }) => question_id === questionId)
      const reply = given === "dismiss" ? { dismiss: true } : request === undefined ? LATE : replyOf(asked.form, request.questions)
      if (reply === null) return yield* Refused.bad("Choose an option or write an answer. Dismiss lets the agent go on without one.")
      const result = yield* services.sandboxes.answerQuestion(by, id, questionId, yield* Requests.questionReply(reply))
      return yield* answered(services, member, asked, id, result, given === "dismiss" ? "dismissed" : "answered")
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      QuestionNotFound: () => Effect.fail(noQuestion),
      AnswerInvalid: ({ message }) => Effect.fail(Refused.bad(message)),
      InvalidRequest: ({ message }) => Effect.fail(Refused.bad(message))
    })
  )

/** The page of one question, for questions that the sandbox's page has no space for. */
const question = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const sandbox = yield* services.sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const found = questionsOf(sandbox).find(({ question_id }) => question_id === asked.params["questionId"])
    if (found === undefined) return yield* Refused.notFound("This question is no longer waiting.")
    const body = html`${breadcrumb(sandbox)}
<h1>Needs your answer</h1>
<ul class="approvals">${questionCard(sandbox, found, member.csrf)}</ul>`
    return Page.show({ title: `Needs your answer: ${sandbox.title}`, place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound))

const interrupt = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    return yield* answered(services, member, asked, id, yield* services.sandboxes.interrupt(principalOf(member.visit), id), "interrupted")
  }, Effect.catchTag("SandboxNotFound", notFound))

const askToTerminate = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const { id, title } = yield* services.sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const body = html`<h1>End this sandbox?</h1>
<p><strong>${title}</strong> ends permanently. Unpublished changes will be lost. The conversation is kept.</p>
<div class="actions">
<form method="post" action="/sandboxes/${id}/terminate">${member.csrf}<button class="danger">End sandbox</button></form>
<a class="button quiet" href="/sandboxes/${id}">Cancel</a></div>`
    return Page.show({ title: "End this sandbox?", place: "sandboxes", body }, member)
  }, Effect.catchTag("SandboxNotFound", notFound))

const terminate = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    return yield* answered(services, member, asked, id, yield* services.sandboxes.terminate(principalOf(member.visit), id), "terminated")
  }, Effect.catchTag("SandboxNotFound", notFound))

const send = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      // Browsers send the line ends of the web's forms.
      const prompt = (yield* asked.form.one("prompt")).replaceAll("\r\n", "\n")
      const whenBusy = (yield* asked.form.maybe("whenBusy")) ?? "reject"
      const request = yield* Effect.mapError(
        Effect.all([Requests.prompt(prompt), Requests.whenBusy(whenBusy)]),
        ({ field }) => Refused.bad(field === "prompt" ? unfit(prompt) : "Choose Queue or Steer.")
      )
      const files = (yield* PromptFiles.of(services.uploads, by, asked.form)).map(({ id }) => ({ id }))
      const { turnId } = yield* services.sandboxes.sendMessage(by, id, request[0], Option.none(), request[1], files)
      const { like } = MessageCommands.read(prompt)
      if (like !== null) return yield* back(services, member, asked, id, `like_${like}`)
      const message = (yield* services.sandboxes.get(by, id)).waiting.find(({ id }) => id === turnId)
      return yield* back(services, member, asked, id, message === undefined ? "sent" : message.steers ? "steers" : "queued")
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      SandboxNotRunning: ({ message }) => Effect.fail(conflict(message)),
      TurnActive: ({ message }) => Effect.fail(conflict(message)),
      QueueFull: ({ message }) => Effect.fail(conflict(message)),
      SteeringUnsupported: ({ message }) => Effect.fail(conflict(message)),
      FilesUnsupported: ({ message }) => Effect.fail(conflict(message)),
      PromptFileNotFound: () => Effect.fail(conflict("A file is no longer there. Choose it again.")),
      TooManyFiles: ({ message }) => Effect.fail(conflict(message)),
      BudgetExceeded: ({ message }) => Effect.fail(conflict(message)),
      NoCredits: ({ message }) => Effect.fail(conflict(message)),
      IdempotencyConflict: Effect.die
    })
  )

const takeBack = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      const messageId = asked.params["messageId"] ?? ""
      const text = textOf(yield* services.sandboxes.get(by, id), messageId)
      const result = yield* services.sandboxes.cancelMessage(by, id, yield* Requests.messageId(messageId))
      // Its script puts it where it can be changed and sent again.
      const more = result.outcome === "applied" && html`<div hidden data-fill="prompt" data-text="${text}"></div>`
      return yield* answered(services, member, asked, id, result, "taken_back", more)
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      InvalidRequest: () => Effect.fail(noMessage),
      MessageNotFound: () => Effect.fail(noMessage),
      MessageNotWaiting: ({ message }) => Effect.fail(conflict(message))
    })
  )

const rename = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      // As titles from prompts: on one line, without spaces around it.
      const title = yield* Requests.title((yield* asked.form.one("title")).replace(/\s+/gu, " ").trim())
      const result = yield* services.sandboxes.rename(principalOf(member.visit), id, title)
      return yield* answered(services, member, asked, id, result, "renamed")
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      InvalidRequest: () => Effect.fail(Refused.bad(`Titles have 1 to ${MAX_TITLE} characters.`))
    })
  )

const pin = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const pinned = yield* asked.form.one("pinned")
      if (pinned !== "yes" && pinned !== "no") return yield* incomplete
      yield* services.dashboard.pin(principalOf(member.visit), id, pinned === "yes")
      return yield* back(services, member, asked, id, pinned === "yes" ? "pinned" : "unpinned")
    },
    Effect.catchTags({ SandboxNotFound: notFound, TooManyPins: ({ message }) => Effect.fail(conflict(message)) })
  )

const publish = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const repo = decodeRepo(yield* asked.form.one("repo"))
      if (Option.isNone(repo)) return yield* Refused.bad("Write the repository as owner/name.")
      const by = principalOf(member.visit)
      const isFirst = (publicationOf(yield* services.sandboxes.get(by, id), repo.value)?.number ?? null) === null
      const ready = (yield* asked.form.maybe("ready")) !== null
      const done = yield* services.publishing.publish(by, id, repo.value, { ready }).pipe(
        Effect.map(({ actionState, pullRequest }) => {
          if (actionState === "publishing" || actionState === "updating") return "publishing"
          return ready && pullRequest?.draft === false ? "ready" : isFirst ? "opened" : "published"
        }),
        Effect.catchTag("NothingToPublish", () => Effect.succeed("nothing" as const))
      )
      return yield* back(services, member, asked, id, done, false, repo.value)
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      RepoNotFound: ({ message }) => Effect.fail(Refused.notFound(message)),
      RepoRequired: ({ message }) => Effect.fail(Refused.bad(message)),
      RepoNotAccessible: ({ message }) => Effect.fail(new Refused({ status: 403, title: "Not accessible", text: `The ${message}.` })),
      SandboxNotRunning: ({ message }) => Effect.fail(conflict(message)),
      BranchMoved: ({ message }) => Effect.fail(notPublished(message)),
      MergeConflict: ({ message }) => Effect.fail(notPublished(message)),
      PullRequestNotWritable: ({ message }) => Effect.fail(notPublished(message)),
      SourceHostError: ({ detail }) => Effect.fail(new Refused({ status: 502, title: "Publishing failed", text: detail }))
    })
  )

/** Gives the agent the failing checks of a pull request, or continues feedback after a pause. */
const feedback = (services: Services): Handler =>
  Effect.fnUntraced(
    function*(member, asked) {
      const id = yield* idOf(asked)
      const by = principalOf(member.visit)
      if (Option.isNone(services.feedback)) return yield* conflict("This service takes no feedback.")
      if ((yield* asked.form.one("action")) === "resume") {
        yield* services.feedback.value.resume(by, id)
        return yield* back(services, member, asked, id, "resumed")
      }
      const repo = decodeRepo(yield* asked.form.one("repo"))
      if (Option.isNone(repo)) return yield* Refused.bad("Write the repository as owner/name.")
      const wanted = { repo: repo.value, text: "", comments: [], checks: true, authorName: member.visit.user.name }
      yield* services.feedback.value.request(by, id, wanted)
      return yield* back(services, member, asked, id, "fixing", false, repo.value)
    },
    Effect.catchTags({
      SandboxNotFound: notFound,
      RepoNotFound: ({ message }) => Effect.fail(Refused.notFound(message)),
      RepoRequired: ({ message }) => Effect.fail(Refused.bad(message)),
      RepoNotAccessible: ({ message }) => Effect.fail(new Refused({ status: 403, title: "Not accessible", text: `The ${message}.` })),
      SandboxNotRunning: ({ message }) => Effect.fail(conflict(message)),
      QueueFull: ({ message }) => Effect.fail(conflict(message)),
      NoFailingChecks: ({ message }) => Effect.fail(conflict(message)),
      NoCredits: ({ message }) => Effect.fail(conflict(message)),
      BudgetExceeded: ({ message }) => Effect.fail(conflict(message)),
      SourceHostError: ({ detail }) => Effect.fail(new Refused({ status: 502, title: "Not now", text: detail }))
    })
  )

/** Leads to a page: its script goes there too. */
const lead = ({ form }: Page.Asked, to: string, text: string) =>
  form.all("live").length === 0 ? Page.redirect(to) : Page.fragment(html`<p class="told"><a href="${to}" data-leads>${text}</a></p>`)

/** Publishes the only repository; of several, one is chosen on the page. */
const publishAlone = (services: Services): Handler => {
  const publishing = publish(services)
  return Effect.fnUntraced(function*(member, asked) {
    const { id, repos } = yield* services.sandboxes.get(principalOf(member.visit), yield* idOf(asked))
    const [repo, ...others] = repos
    if (repo === undefined || others.length > 0) return lead(asked, `/sandboxes/${id}?view=pull`, "Choose a repository to publish")
    const live = asked.form.all("live").map((value) => ["live", value] as const)
    return yield* publishing(member, { ...asked, form: new Form([["repo", repo.fullName], ...live]) })
  }, Effect.catchTag("SandboxNotFound", notFound))
}

/** Leads to the form of a fork from the last checkpoint. */
const askToFork = (services: Services): Handler =>
  Effect.fnUntraced(function*(member, asked) {
    const id = yield* idOf(asked)
    const kept = yield* services.sandboxes.checkpoints(principalOf(member.visit), id, { after: 0, limit: KEPT_CHECKPOINTS })
    const last = kept.at(-1)
    if (last === undefined) return yield* conflict("There is no checkpoint to fork from yet. The first is saved after the first turn.")
    return lead(asked, `/sandboxes/${id}/fork?checkpoint=${last.checkpoint}`, `Fork from checkpoint ${last.checkpoint}`)
  }, Effect.catchTags({ SandboxNotFound: notFound, InvalidRequest: Effect.die }))

/** Sends the message, or does what it commands. */
const sendOrDo = (services: Services): Handler => {
  const message = send(services)
  const commands: Readonly<Record<MessageCommands.Command, Handler>> = {
    publish: publishAlone(services),
    stop: interrupt(services),
    fork: askToFork(services)
  }
  return Effect.fnUntraced(function*(member, asked) {
    const { does } = MessageCommands.read(yield* asked.form.one("prompt"))
    return yield* (does === null ? message : commands[does])(member, asked)
  })
}

export const make = Effect.gen(function*() {
  const services: Services = {
    uploads: yield* Uploads,
    dashboard: yield* SandboxDashboard,
    sandboxes: yield* Sandboxes,
    publishing: yield* Publishing,
    feedback: yield* Effect.serviceOption(Feedback),
    pieces: yield* SandboxPieces.make
  }
  return {
    approval: approval(services),
    decide: decide(services),
    question: question(services),
    answer: answer(services),
    interrupt: interrupt(services),
    askToTerminate: askToTerminate(services),
    terminate: terminate(services),
    send: sendOrDo(services),
    takeBack: takeBack(services),
    rename: rename(services),
    pin: pin(services),
    publish: publish(services),
    feedback: feedback(services)
  }
})
