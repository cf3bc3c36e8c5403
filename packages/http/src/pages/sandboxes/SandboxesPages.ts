/** The pages of sandboxes. */
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import * as Page from "../Page.ts"
import * as SandboxChanges from "./SandboxChanges.ts"
import * as SandboxForms from "./SandboxForms.ts"
import * as SandboxList from "./SandboxList.ts"
import * as SandboxPage from "./SandboxPage.ts"

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { members } = yield* Effect.provideService(Page.make, HttpRouter.HttpRouter, router)
  const forms = yield* SandboxForms.make
  yield* members("/sandboxes", { GET: yield* SandboxList.make })
  yield* members("/sandboxes/:sandboxId", { GET: yield* SandboxPage.make })
  yield* members("/sandboxes/:sandboxId/changes", { GET: yield* SandboxChanges.make })
  yield* members("/sandboxes/:sandboxId/terminate", { GET: forms.askToTerminate, POST: forms.terminate })
  yield* members("/sandboxes/:sandboxId/interrupt", { POST: forms.interrupt })
  yield* members("/sandboxes/:sandboxId/messages", { POST: forms.send })
  yield* members("/sandboxes/:sandboxId/pull-request", { POST: forms.publish })
  yield* members("/sandboxes/:sandboxId/approvals/:approvalId", { POST: forms.decide })
}))
