// A dead letter leads from the overview to a new run; another one is discarded.

import { arrive, see, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  const page = await stage.open();
  await page.getByRole('link', { name: /dead letters?$/ }).first().click();
  await arrive(page, 'Dead letters');
  const open = async (id) => {
    await page.goto(`${stage.world.api}/#/dead-letters?instance=${id}`);
    const links = page.getByRole('link', { name: 'Activity given up' });
    // The list of all is shown until that of this instance is there.
    await until('one is left', async () => (await links.count()) === 1);
    await links.click();
    await arrive(page, 'Activity given up');
    await see(page, 'it was tried 10 times');
    await see(page, 'deliver-mail');
  };

  await open('mail-1');
  await page.getByRole('button', { name: 'Redrive' }).click();
  const dialog = page.getByRole('dialog');
  await see(page, 'A new instance starts from the beginning');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Redrive' }).click();
  await dialog.getByRole('button', { name: 'Redrive' }).click();
  await until('the new instance has ended', async () => (await page.locator('.badge').first().innerText()).includes('Completed'));
  await see(page, 'delivered to');

  await open('mail-2');
  await page.getByRole('button', { name: 'Discard' }).click();
  await dialog.getByRole('button', { name: 'Discard' }).click();
  await arrive(page, 'Dead letters');
  await see(page, 'The dead letter was discarded.');

  // Both are gone, and one that somebody else has handled says so.
  for (const id of ['mail-1', 'mail-2']) {
    await page.goto(`${stage.world.api}/#/dead-letters?instance=${id}`);
    await see(page, 'No dead letter matches these filters');
  }
  stage.expect(/status of 404/);
  await page.goto(`${stage.world.api}/#/dead-letters/mail-2/dead%3Aa%3Agone`);
  await see(page, 'This dead letter does not exist any more');
}
