/** The whole HTTP side with the pages. */
import * as Http from "@slipway/http/testing/Harness"
import { pages } from "@slipway/pages/Pages"

export * from "@slipway/http/testing/Harness"

/** As the layer of the same name without pages. */
export const layer = (options: Omit<NonNullable<Parameters<typeof Http.layer>[0]>, "pages"> = {}) => Http.layer({ ...options, pages })
