/**
 * The buffers to move to another thread, if they contain only these bytes. Copying 32 MiB would block the event loop for 10 ms.
 */
export const of = ({ buffer, byteLength }: Uint8Array): Array<ArrayBuffer> =>
  buffer instanceof ArrayBuffer && buffer.byteLength === byteLength ? [buffer] : []
