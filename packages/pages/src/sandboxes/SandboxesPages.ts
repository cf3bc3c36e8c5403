/** The pages of sandboxes. */
import { Effect, Layer } from "effect"
import { HttpRouter } from "effect/http"
import * as Form from "../layout/Form.ts"
import * as Page from "../layout/Page.ts"
import { PullRequestCache } from "../shared/PullRequestCache.ts"
import { ChangesCache } from "./changes/ChangesCache.ts"
import * as Composer from "./create/Composer.ts"
import * as SandboxArtifacts from "./files/SandboxArtifacts.ts"
import * as SandboxChanges from "./files/SandboxChanges.ts"
import * as SandboxFiles from "./files/SandboxFiles.ts"
import * as SandboxBulk from "./list/SandboxBulk.ts"
import * as SandboxList from "./list/SandboxList.ts"
import * as CheckpointForms from "./page/CheckpointForms.ts"
import * as PreviewPage from "./page/PreviewPage.ts"
import * as ReadOnlyPage from "./page/ReadOnlyPage.ts"
import * as SandboxForms from "./page/SandboxForms.ts"
import * as SandboxPage from "./page/SandboxPage.ts"
import * as SandboxStream from "./page/SandboxStream.ts"
import * as SandboxText from "./page/SandboxText.ts"
import * as SendBack from "./page/SendBack.ts"
import * as TerminalPage from "./page/TerminalPage.ts"

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const forms = yield* SandboxForms.make
  const checkpoints = yield* CheckpointForms.make
  const { addSample, files: newFiles, get, post, pulls, repositories } = yield* Composer.make
  yield* members("/new", { GET: get, POST: post, takesFiles: true })
  yield* members("/new/repositories", { GET: repositories })
  yield* members("/new/pulls", { GET: pulls })
  yield* members("/new/files", { GET: newFiles })
  yield* members("/new/sample", { POST: addSample })
  const list = yield* SandboxList.make
  yield* members("/sandboxes", { GET: list.get })
  yield* members("/sandboxes/rows", { GET: list.rows })
  yield* members("/sandboxes/waiting", { GET: list.asking })
  yield* members("/sandboxes/titles", { GET: list.titles })
  for (const { handlers, path } of yield* SandboxBulk.make) yield* members(path, handlers)
  yield* members("/sandboxes/:sandboxId", { GET: yield* SandboxPage.make })
  yield* members("/sandboxes/:sandboxId/pieces", { GET: yield* SandboxStream.make(false) })
  yield* members("/sandboxes/:sandboxId/read", { GET: yield* ReadOnlyPage.make })
  yield* members("/sandboxes/:sandboxId/read/pieces", { GET: yield* SandboxStream.make(true) })
  yield* members("/sandboxes/:sandboxId/changes", { GET: yield* SandboxChanges.make })
  yield* members("/sandboxes/:sandboxId/text", { GET: yield* SandboxText.make })
  const files = yield* SandboxFiles.make
  yield* members("/sandboxes/:sandboxId/files", { GET: files.get })
  yield* members("/sandboxes/:sandboxId/files/download", { GET: files.download })
  yield* members("/sandboxes/:sandboxId/files/names", { GET: files.names })
  yield* members("/sandboxes/:sandboxId/files/picture", { GET: files.picture })
  const terminal = yield* TerminalPage.make
  yield* members("/sandboxes/:sandboxId/terminal", { GET: terminal.get })
  yield* members("/sandboxes/:sandboxId/terminal/frame", { GET: terminal.getFrame })
  const artifacts = yield* SandboxArtifacts.make
  yield* members("/sandboxes/:sandboxId/artifacts", { GET: artifacts.get })
  yield* members("/sandboxes/:sandboxId/artifacts/download", { GET: artifacts.download })
  yield* members("/sandboxes/:sandboxId/artifacts/media", { GET: artifacts.media })
  yield* members("/sandboxes/:sandboxId/terminate", { GET: forms.askToTerminate, POST: forms.terminate })
  yield* members("/sandboxes/:sandboxId/interrupt", { POST: forms.interrupt })
  yield* members("/sandboxes/:sandboxId/messages", { POST: forms.send, formBytes: Form.PROMPT_BYTES, takesFiles: true })
  yield* members("/sandboxes/:sandboxId/messages/:messageId/take-back", { POST: forms.takeBack })
  yield* members("/sandboxes/:sandboxId/pull-request", { POST: forms.publish })
  yield* members("/sandboxes/:sandboxId/feedback", { POST: forms.feedback })
  yield* members("/sandboxes/:sandboxId/rename", { POST: forms.rename })
  yield* members("/sandboxes/:sandboxId/pin", { POST: forms.pin })
  yield* members("/sandboxes/:sandboxId/preview", yield* PreviewPage.make)
  yield* members("/sandboxes/:sandboxId/send-back", { GET: yield* SendBack.make })
  yield* members("/sandboxes/:sandboxId/restore", { GET: checkpoints.askToRestore, POST: checkpoints.restore })
  yield* members("/sandboxes/:sandboxId/fork", { GET: checkpoints.askToFork, POST: checkpoints.fork })
  yield* members("/sandboxes/:sandboxId/approvals/:approvalId", { GET: forms.approval, POST: forms.decide })
  yield* members("/sandboxes/:sandboxId/questions/:questionId", {
    GET: forms.question,
    POST: forms.answer,
    formBytes: Form.PROMPT_BYTES
  })
})).pipe(Layer.provide([ChangesCache.layer, PullRequestCache.layer]))
