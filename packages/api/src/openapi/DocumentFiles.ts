/**
 * The OpenAPI documents as files of this package: making one from the definition takes a fifth of a second. Tests keep the files
 * equal to the definition.
 */

/** The public API's document. */
export const publicDocument = new URL("../../openapi.json", import.meta.url)

/** The document of the API that operators' own programs call. */
export const internalDocument = new URL("../../openapi-internal.json", import.meta.url)
