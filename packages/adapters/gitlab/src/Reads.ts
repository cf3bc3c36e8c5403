/** Conditional reads of GitLab's API. */
import * as Conditional from "@slipway/rest-host/ConditionalReads"
import type { GitLabApi } from "./GitLabApi.ts"

export type ConditionalReads = ReturnType<typeof Conditional.make>

export const make = ({ host }: GitLabApi): ConditionalReads => Conditional.make(host, { size: "per_page", page: "page" })
