// Idempotency keys. A form has one key for one content: a second click, or a retry after an answer that was lost, has its effect once.
// Other content is another intention, and the API would refuse it under the same key.

/**
 * @param {() => string} [newKey]
 * @returns {(content: unknown) => string} the key for a content
 */
export function intent(newKey = () => crypto.randomUUID()) {
  /** @type {Map<string, string>} */
  const keys = new Map();
  return (content) => {
    const text = JSON.stringify(content);
    const key = keys.get(text) ?? newKey();
    keys.set(text, key);
    return key;
  };
}
