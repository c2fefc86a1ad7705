// The words of the login and the list of desktops, in ten languages.
// Used by account.ts before a login; the words of a desktop's own page are English.
// Knows languages; never what a person types. What PAM and the user's agent say is shown as it is.

const ENGLISH = {
  logIn: "Log in",
  userName: "User name",
  password: "Password",
  proceed: "Continue",
  start: "Start a desktop",
  logOut: "Log out",
  withAccount: "With the account that you have on this machine.",
  refused: "The login was refused: name or password is wrong, or the account cannot be used now.",
  busy: "Too many people are logging in at this moment. Try again in a few seconds.",
  closed: "Nobody can log in at this moment. Try again, or ask your administrator.",
  answered: "The server answered {0}. Its log says more.",
  keepsNothing: "This browser keeps no cookies and no data for this address: allow both.",
  unreachable: "The server could not be reached ({0}).",
  asksMore: "The system asks for more.",
  none: "None is running.",
  desktopsOf: "Desktops of {0}",
  open: "Open",
  end: "End",
  openOne: "Open {0}",
  endOne: "End {0}",
  minutes: "for {0} min",
  hours: "for {0} h",
  days: "for {0} days",
  opening: "Opening your desktop…",
  starting: "Starting your desktop…",
  notStarted: "No desktop could be started: {0}",
  confirmEnd: "End {0}? What is not saved in its programs is lost.",
};

export type Word = keyof typeof ENGLISH;
type Words = Record<Word, string>;

const GERMAN: Words = {
  logIn: "Anmelden",
  userName: "Benutzername",
  password: "Passwort",
  proceed: "Weiter",
  start: "Desktop starten",
  logOut: "Abmelden",
  withAccount: "Mit dem Konto, das Sie auf diesem Rechner haben.",
  refused:
    "Die Anmeldung wurde abgelehnt: Name oder Passwort ist falsch, oder das Konto ist gesperrt.",
  busy: "Gerade melden sich zu viele Personen an. Versuchen Sie es in einigen Sekunden erneut.",
  closed:
    "Zurzeit kann sich niemand anmelden. Versuchen Sie es erneut oder fragen Sie die Verwaltung.",
  answered: "Der Server antwortete mit {0}. Mehr steht in seinem Protokoll.",
  keepsNothing:
    "Dieser Browser speichert für diese Adresse weder Cookies noch Daten: Erlauben Sie beides.",
  unreachable: "Der Server ist nicht erreichbar ({0}).",
  asksMore: "Das System fragt nach mehr.",
  none: "Es läuft keiner.",
  desktopsOf: "Desktops von {0}",
  open: "Öffnen",
  end: "Beenden",
  openOne: "{0} öffnen",
  endOne: "{0} beenden",
  minutes: "seit {0} min",
  hours: "seit {0} h",
  days: "seit {0} Tagen",
  opening: "Ihr Desktop wird geöffnet …",
  starting: "Ihr Desktop wird gestartet …",
  notStarted: "Es konnte kein Desktop gestartet werden: {0}",
  confirmEnd: "{0} beenden? Was in den Programmen nicht gespeichert ist, geht verloren.",
};

const FRENCH: Words = {
  logIn: "Connexion",
  userName: "Nom d’utilisateur",
  password: "Mot de passe",
  proceed: "Continuer",
  start: "Démarrer un bureau",
  logOut: "Se déconnecter",
  withAccount: "Avec le compte que vous avez sur cette machine.",
  refused:
    "Connexion refusée : nom ou mot de passe incorrect, ou compte inutilisable en ce moment.",
  busy: "Trop de personnes se connectent en ce moment. Réessayez dans quelques secondes.",
  closed:
    "Personne ne peut se connecter en ce moment. Réessayez ou demandez à votre administrateur.",
  answered: "Le serveur a répondu {0}. Son journal en dit plus.",
  keepsNothing:
    "Ce navigateur ne garde ni cookies ni données pour cette adresse : autorisez les deux.",
  unreachable: "Le serveur est injoignable ({0}).",
  asksMore: "Le système demande autre chose.",
  none: "Aucun bureau n’est ouvert.",
  desktopsOf: "Bureaux de {0}",
  open: "Ouvrir",
  end: "Terminer",
  openOne: "Ouvrir {0}",
  endOne: "Terminer {0}",
  minutes: "depuis {0} min",
  hours: "depuis {0} h",
  days: "depuis {0} jours",
  opening: "Ouverture de votre bureau…",
  starting: "Démarrage de votre bureau…",
  notStarted: "Aucun bureau n’a pu être démarré : {0}",
  confirmEnd: "Terminer {0} ? Ce qui n’est pas enregistré dans ses programmes sera perdu.",
};

const SPANISH: Words = {
  logIn: "Iniciar sesión",
  userName: "Nombre de usuario",
  password: "Contraseña",
  proceed: "Continuar",
  start: "Iniciar un escritorio",
  logOut: "Cerrar sesión",
  withAccount: "Con la cuenta que tiene en este equipo.",
  refused: "Acceso denegado: nombre o contraseña incorrectos, o la cuenta no se puede usar ahora.",
  busy: "Demasiadas personas están iniciando sesión. Inténtelo de nuevo en unos segundos.",
  closed:
    "Nadie puede iniciar sesión en este momento. Inténtelo de nuevo o consulte al administrador.",
  answered: "El servidor respondió {0}. Su registro dice más.",
  keepsNothing:
    "Este navegador no guarda cookies ni datos para esta dirección: permita ambas cosas.",
  unreachable: "No se pudo conectar con el servidor ({0}).",
  asksMore: "El sistema pide más datos.",
  none: "No hay ninguno en marcha.",
  desktopsOf: "Escritorios de {0}",
  open: "Abrir",
  end: "Terminar",
  openOne: "Abrir {0}",
  endOne: "Terminar {0}",
  minutes: "desde hace {0} min",
  hours: "desde hace {0} h",
  days: "desde hace {0} días",
  opening: "Abriendo su escritorio…",
  starting: "Iniciando su escritorio…",
  notStarted: "No se pudo iniciar ningún escritorio: {0}",
  confirmEnd: "¿Terminar {0}? Se perderá lo que no esté guardado en sus programas.",
};

const ITALIAN: Words = {
  logIn: "Accedi",
  userName: "Nome utente",
  password: "Password",
  proceed: "Continua",
  start: "Avvia un desktop",
  logOut: "Esci",
  withAccount: "Con l’account che ha su questo computer.",
  refused: "Accesso rifiutato: nome o password errati, oppure l’account non è utilizzabile adesso.",
  busy: "Troppe persone stanno accedendo in questo momento. Riprovi tra qualche secondo.",
  closed: "Nessuno può accedere in questo momento. Riprovi o chieda all’amministratore.",
  answered: "Il server ha risposto {0}. Il suo registro dice di più.",
  keepsNothing:
    "Questo browser non conserva cookie né dati per questo indirizzo: consenta entrambi.",
  unreachable: "Il server non è raggiungibile ({0}).",
  asksMore: "Il sistema chiede altro.",
  none: "Nessuno è in esecuzione.",
  desktopsOf: "Desktop di {0}",
  open: "Apri",
  end: "Termina",
  openOne: "Apri {0}",
  endOne: "Termina {0}",
  minutes: "da {0} min",
  hours: "da {0} h",
  days: "da {0} giorni",
  opening: "Apertura del desktop…",
  starting: "Avvio del desktop…",
  notStarted: "Non è stato possibile avviare un desktop: {0}",
  confirmEnd: "Terminare {0}? Ciò che non è salvato nei suoi programmi andrà perso.",
};

const PORTUGUESE: Words = {
  logIn: "Entrar",
  userName: "Nome de utilizador",
  password: "Palavra-passe",
  proceed: "Continuar",
  start: "Iniciar um ambiente de trabalho",
  logOut: "Terminar sessão",
  withAccount: "Com a conta que tem neste computador.",
  refused: "Acesso recusado: nome ou palavra-passe errados, ou a conta não pode ser usada agora.",
  busy: "Demasiadas pessoas estão a entrar neste momento. Tente de novo dentro de segundos.",
  closed: "Ninguém pode entrar neste momento. Tente de novo ou contacte o administrador.",
  answered: "O servidor respondeu {0}. O seu registo diz mais.",
  keepsNothing: "Este navegador não guarda cookies nem dados deste endereço: permita ambos.",
  unreachable: "Não foi possível contactar o servidor ({0}).",
  asksMore: "O sistema pede mais dados.",
  none: "Nenhum está em execução.",
  desktopsOf: "Ambientes de trabalho de {0}",
  open: "Abrir",
  end: "Terminar",
  openOne: "Abrir {0}",
  endOne: "Terminar {0}",
  minutes: "há {0} min",
  hours: "há {0} h",
  days: "há {0} dias",
  opening: "A abrir o seu ambiente de trabalho…",
  starting: "A iniciar o seu ambiente de trabalho…",
  notStarted: "Não foi possível iniciar um ambiente de trabalho: {0}",
  confirmEnd: "Terminar {0}? O que não estiver guardado nos programas perde-se.",
};

const POLISH: Words = {
  logIn: "Logowanie",
  userName: "Nazwa użytkownika",
  password: "Hasło",
  proceed: "Dalej",
  start: "Uruchom pulpit",
  logOut: "Wyloguj",
  withAccount: "Kontem, które masz na tym komputerze.",
  refused: "Odmowa logowania: nazwa lub hasło jest błędne albo z konta nie można teraz korzystać.",
  busy: "W tej chwili loguje się zbyt wiele osób. Spróbuj ponownie za kilka sekund.",
  closed: "W tej chwili nikt nie może się zalogować. Spróbuj ponownie lub zapytaj administratora.",
  answered: "Serwer odpowiedział {0}. Więcej jest w jego dzienniku.",
  keepsNothing: "Ta przeglądarka nie zapisuje plików cookie ani danych tego adresu: zezwól na oba.",
  unreachable: "Nie można połączyć się z serwerem ({0}).",
  asksMore: "System pyta o więcej.",
  none: "Żaden nie działa.",
  desktopsOf: "Pulpity użytkownika {0}",
  open: "Otwórz",
  end: "Zakończ",
  openOne: "Otwórz {0}",
  endOne: "Zakończ {0}",
  minutes: "od {0} min",
  hours: "od {0} godz.",
  days: "od {0} dni",
  opening: "Otwieranie pulpitu…",
  starting: "Uruchamianie pulpitu…",
  notStarted: "Nie udało się uruchomić pulpitu: {0}",
  confirmEnd: "Zakończyć {0}? To, czego nie zapisano w programach, zostanie utracone.",
};

const RUSSIAN: Words = {
  logIn: "Вход",
  userName: "Имя пользователя",
  password: "Пароль",
  proceed: "Продолжить",
  start: "Запустить рабочий стол",
  logOut: "Выйти",
  withAccount: "С учётной записью на этом компьютере.",
  refused:
    "Во входе отказано: неверное имя или пароль, или учётной записью сейчас нельзя пользоваться.",
  busy: "Сейчас входит слишком много людей. Повторите через несколько секунд.",
  closed: "Сейчас никто не может войти. Повторите позже или обратитесь к администратору.",
  answered: "Сервер ответил {0}. Подробности в его журнале.",
  keepsNothing: "Браузер не хранит cookie и данные этого адреса: разрешите и то и другое.",
  unreachable: "Нет связи с сервером ({0}).",
  asksMore: "Система просит дополнительные данные.",
  none: "Ни один не запущен.",
  desktopsOf: "Рабочие столы: {0}",
  open: "Открыть",
  end: "Завершить",
  openOne: "Открыть {0}",
  endOne: "Завершить {0}",
  minutes: "{0} мин",
  hours: "{0} ч",
  days: "{0} дн.",
  opening: "Открывается рабочий стол…",
  starting: "Запускается рабочий стол…",
  notStarted: "Не удалось запустить рабочий стол: {0}",
  confirmEnd: "Завершить {0}? Всё, что не сохранено в программах, будет потеряно.",
};

const CHINESE: Words = {
  logIn: "登录",
  userName: "用户名",
  password: "密码",
  proceed: "继续",
  start: "启动桌面",
  logOut: "退出登录",
  withAccount: "使用您在这台计算机上的帐户。",
  refused: "登录被拒绝：用户名或密码错误，或者该帐户目前不能使用。",
  busy: "目前登录的人太多。请几秒钟后再试。",
  closed: "目前无法登录。请再试一次，或咨询管理员。",
  answered: "服务器返回了 {0}。其日志中有更多信息。",
  keepsNothing: "此浏览器不保存此地址的 Cookie 和数据：请允许两者。",
  unreachable: "无法连接服务器（{0}）。",
  asksMore: "系统需要更多信息。",
  none: "没有正在运行的桌面。",
  desktopsOf: "{0} 的桌面",
  open: "打开",
  end: "结束",
  openOne: "打开 {0}",
  endOne: "结束 {0}",
  minutes: "已运行 {0} 分钟",
  hours: "已运行 {0} 小时",
  days: "已运行 {0} 天",
  opening: "正在打开您的桌面…",
  starting: "正在启动您的桌面…",
  notStarted: "无法启动桌面：{0}",
  confirmEnd: "结束 {0}？程序中未保存的内容将会丢失。",
};

const JAPANESE: Words = {
  logIn: "ログイン",
  userName: "ユーザー名",
  password: "パスワード",
  proceed: "続ける",
  start: "デスクトップを開始",
  logOut: "ログアウト",
  withAccount: "このコンピューターのアカウントを使います。",
  refused: "ログインできません。名前かパスワードが違うか、今は使えないアカウントです。",
  busy: "現在ログイン中の人が多すぎます。数秒後にもう一度お試しください。",
  closed: "現在は誰もログインできません。もう一度試すか、管理者に問い合わせてください。",
  answered: "サーバーの応答は {0} でした。詳しくはサーバーのログにあります。",
  keepsNothing: "このブラウザーはこのアドレスの Cookie とデータを保存しません。許可してください。",
  unreachable: "サーバーに接続できません（{0}）。",
  asksMore: "システムがほかの情報を求めています。",
  none: "実行中のものはありません。",
  desktopsOf: "{0} のデスクトップ",
  open: "開く",
  end: "終了",
  openOne: "{0} を開く",
  endOne: "{0} を終了",
  minutes: "{0} 分間",
  hours: "{0} 時間",
  days: "{0} 日間",
  opening: "デスクトップを開いています…",
  starting: "デスクトップを開始しています…",
  notStarted: "デスクトップを開始できません: {0}",
  confirmEnd: "{0} を終了しますか？プログラムで保存していない内容は失われます。",
};

/** By their code of ISO 639-1. */
const CATALOGUE: Record<string, Words> = {
  en: ENGLISH,
  de: GERMAN,
  fr: FRENCH,
  es: SPANISH,
  it: ITALIAN,
  pt: PORTUGUESE,
  pl: POLISH,
  ru: RUSSIAN,
  zh: CHINESE,
  ja: JAPANESE,
};

/** The first of the person's languages that there are words of; English without one. */
export function chooseLanguage(wanted: readonly string[]): string {
  const codes = wanted.map((tag) => tag.toLowerCase().split("-")[0] ?? "");
  return codes.find((code) => Object.hasOwn(CATALOGUE, code)) ?? "en";
}

const language = chooseLanguage(navigator.languages);

/** A text in the person's language; `value` takes the place of {0}. */
export function say(word: Word, value: string | number = ""): string {
  return (CATALOGUE[language] ?? ENGLISH)[word].replace("{0}", () => String(value));
}

/** Translates the page: each element with `data-word` gets the text of that name. */
export function translatePage(): void {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll<HTMLElement>("[data-word]"))
    element.textContent = say(element.dataset.word as Word);
}
