"""What WhatsApp writes in place of a message, in its languages: exports of Android do not mark it.

An export has the language of the phone. The phrases are whole texts, without case, invisible marks and a final point.
"""

import re
import unicodedata

MARKS = "\u200e\u200f\u202a\u202c\ufeff"  # invisible, of the direction of writing
DELETED = """
This message was deleted | You deleted this message | You deleted this message as admin | This message has been deleted
Se eliminó este mensaje | Eliminaste este mensaje | Este mensaje fue eliminado
Mensagem apagada | Essa mensagem foi apagada | Esta mensagem foi apagada | Esta mensagem foi apagada pelo remetente
Apagou esta mensagem | Você apagou esta mensagem | Esta mensagem foi eliminada | Eliminou esta mensagem
Diese Nachricht wurde gelöscht | Du hast diese Nachricht gelöscht
Ce message a été supprimé | Vous avez supprimé ce message
Questo messaggio è stato eliminato | Hai eliminato questo messaggio
Dit bericht is verwijderd | Je hebt dit bericht verwijderd | U hebt dit bericht verwijderd
Данное сообщение удалено | Вы удалили данное сообщение | Это сообщение было удалено | Вы удалили это сообщение
Bu mesaj silindi | Bu mesajı sildiniz
تم حذف هذه الرسالة | لقد حذفت هذه الرسالة | أنت حذفت هذه الرسالة
यह मैसेज डिलीट कर दिया गया है | आपने यह मैसेज डिलीट किया | आपने यह मैसेज डिलीट कर दिया है
यह मैसेज मिटाया गया | यह संदेश मिटाया गया | आपने यह संदेश मिटाया
Pesan ini dihapus | Pesan ini telah dihapus | Anda menghapus pesan ini | Anda telah menghapus pesan ini
このメッセージは削除されました | このメッセージを削除しました
这条消息已被删除 | 此消息已删除 | 消息已删除 | 信息已删除 | 您已删除这条消息 | 你已删除这条消息 | 你删除了这条消息
此訊息已刪除 | 您已刪除此訊息 | 你已刪除此訊息
Ta wiadomość została usunięta | Usunięto tę wiadomość | Usunąłeś(-ęłaś) tę wiadomość | Usunąłeś(aś) tę wiadomość
이 메시지는 삭제되었습니다 | 삭제된 메시지입니다 | 삭제한 메시지입니다 | 이 메시지를 삭제했습니다
Це повідомлення було видалено | Ви видалили це повідомлення
Tato zpráva byla smazána | Tato zpráva byla odstraněna | Tuto zprávu jste smazal/a | Tuto zprávu jste odstranil/a
Táto správa bola odstránená | Túto správu ste odstránili
Det här meddelandet raderades | Detta meddelande raderades | Du raderade detta meddelande
Du raderade det här meddelandet | Du har tagit bort meddelandet
Denne besked blev slettet | Denne besked er blevet slettet | Du slettede denne besked | Du har slettet denne besked
Denne meldingen ble slettet | Du slettet denne meldingen | Tämä viesti poistettiin | Poistit tämän viestin
Acest mesaj a fost șters | Ați șters acest mesaj | Ez az üzenet törlésre került | Törölted ezt az üzenetet
Αυτό το μήνυμα διαγράφηκε | Διαγράψατε αυτό το μήνυμα | Διαγράψατε το μήνυμα
הודעה זו נמחקה | מחקת את ההודעה הזו | מחקת הודעה זו | این پیام حذف شد | این پیام حذف شده است | شما این پیام را حذف کردید
Tin nhắn này đã bị xóa | Tin nhắn này đã bị xoá | Bạn đã xóa tin nhắn này | Bạn đã xoá tin nhắn này
ข้อความนี้ถูกลบแล้ว | ข้อความนี้ได้ถูกลบ | คุณได้ลบข้อความนี้ | คุณลบข้อความนี้
Mesej ini telah dipadam | Anda telah memadamkan mesej ini | Aquest missatge s'ha suprimit | Has suprimit aquest missatge
یہ میسج حذف کر دیا گیا ہے | آپ نے یہ میسج حذف کر دیا ہے | এই মেসেজটি বাদ দেওয়া হয়েছে | আপনি এই মেসেজটি বাদ দিয়েছেন
"""
CALLS = """
Missed voice call | Missed video call | Missed group voice call | Missed group video call | Silenced voice call
Llamada perdida | Llamada de voz perdida | Videollamada perdida | Llamada grupal perdida | Videollamada grupal perdida
Chamada de voz perdida | Chamada de vídeo perdida | Videochamada perdida | Chamada de voz não atendida
Chamada de vídeo não atendida | Ligação de voz perdida | Ligação de vídeo perdida
Verpasster Sprachanruf | Verpasster Videoanruf | Verpasster Gruppenanruf | Verpasster Gruppen-Sprachanruf
Appel vocal manqué | Appel vidéo manqué | Appel vocal de groupe manqué | Appel vidéo de groupe manqué
Chiamata vocale persa | Videochiamata persa | Chiamata vocale di gruppo persa | Videochiamata di gruppo persa
Gemiste spraakoproep | Gemiste video-oproep | Gemiste videooproep | Gemist spraakgesprek | Gemist videogesprek
Пропущенный аудиозвонок | Пропущенный видеозвонок | Пропущенный групповой звонок
Cevapsız sesli arama | Cevapsız görüntülü arama | Cevapsız grup araması
مكالمة صوتية فائتة | مكالمة فيديو فائتة | مكالمة صوتية لم يرد عليها | مكالمة فيديو لم يرد عليها
वॉइस कॉल मिस हुई | मिस्ड वॉइस कॉल | मिस्ड वीडियो कॉल | छूटी हुई ध्वनि कॉल | छूटी हुई विडियो कॉल
Panggilan suara tak terjawab | Panggilan video tak terjawab | 音声通話不在着信 | ビデオ通話不在着信 | 不在着信
未接语音通话 | 未接视频通话 | 未接語音通話 | 未接視訊通話 | 未接視像通話
부재중 전화 | 부재중 음성통화 | 부재중 영상통화
Nieodebrane połączenie | Nieodebrane połączenie głosowe | Nieodebrane połączenie wideo
Nieodebrane poł. głosowe | Nieodebrane poł. wideo | Пропущений аудіодзвінок | Пропущений відеодзвінок
Zmeškaný hovor | Zmeškaný hlasový hovor | Zmeškaný videohovor | Missat röstsamtal | Missat videosamtal
Ubesvaret taleopkald | Ubesvaret videoopkald | Tapt taleanrop | Tapt videoanrop | Vastaamaton äänipuhelu
Vastaamaton videopuhelu | Apel vocal ratat | Apel video ratat | Nem fogadott hanghívás | Nem fogadott videohívás
Αναπάντητη φωνητική κλήση | Αναπάντητη βιντεοκλήση | שיחה קולית שלא נענתה | שיחת וידאו שלא נענתה
تماس صوتی پاسخ داده نشده | تماس تصویری پاسخ داده نشده | Cuộc gọi nhỡ | Cuộc gọi nhỡ video
"""
MEDIA = """
image omitted | photo omitted | video omitted | video note omitted | video message omitted | audio omitted
voice message omitted | sticker omitted | GIF omitted | document omitted | contact card omitted | media omitted
Location omitted | Live location omitted | live location shared
imagen omitida | Video omitido | audio omitido | sticker omitido | GIF omitido | documento omitido
Tarjeta de contacto omitida | Multimedia omitido | ubicación en tiempo real compartida
imagem ocultada | imagem omitida | imagem não revelada | vídeo omitido | vídeo ocultado | vídeo não revelado
áudio ocultado | áudio omitido | ficheiro de áudio não revelado | figurinha omitida | sticker não revelado
GIF não revelada | documento não revelado | Contacto não revelado | Cartão do contato omitido | Mídia oculta
localização atual compartilhada
Bild weggelassen | Video weggelassen | Audio weggelassen | Sticker weggelassen | GIF weggelassen
Dokument weggelassen | Kontaktkarte ausgelassen | Medien weggelassen | Medien ausgeschlossen
image absente | vidéo absente | audio omis | sticker omis | GIF retiré | document manquant | Fiche contact manquante
Médias omis | Localisation en direct partagée
immagine omessa | video omesso | audio omesso | sticker non incluso | GIF esclusa | documento omesso
Scheda contatto omessa | Media omessi | posizione attuale condivisa
afbeelding weggelaten | video weggelaten | audio weggelaten | sticker weggelaten | GIF weggelaten
document weggelaten | Visitekaartje weggelaten | Media weggelaten | live locatie gedeeld
изображение отсутствует | видео отсутствует | аудиофайл отсутствует | аудио отсутствует | стикер не добавлен
GIF отсутствует | документ отсутствует | Карточка контакта отсутствует | Без медиафайлов | Геоданные отправлены
görüntü dahil edilmedi | video dahil edilmedi | ses dahil edilmedi | Çıkartma dahil edilmedi | GIF dahil edilmedi
belge dahil edilmedi | Kişi kartı dahil edilmedi | Medya dahil edilmedi | Mevcut konum paylaşıldı
لم يتم إدراج الصورة | لم يتم إدراج الفيديوهات | لم يتم إدراج المقاطع الصوتية | تم حذف الملصقات | لم يتم إدراج صورة GIF
لم يتم إدراج المستند | لم يتم إدراج بطاقة جهة اتصال | تم استبعاد الوسائط
फ़ोटो हटाई गई | वीडियो छोड़ा गया | ऑडियो हटाई गयी | स्टिकर छोड़ा गया | GIF छोड़ा गया | डॉक्यूमेंट छोड़ा गया
कॉन्टैक्ट कार्ड छोड़ा गया
gambar tidak disertakan | video tidak disertakan | audio tidak disertakan | stiker tidak disertakan
GIF tidak disertakan | dokumen tidak disertakan | Kartu kontak tidak disertakan | Lokasi terkini dibagikan
画像は含まれていません | ビデオは含まれていません | 音声は含まれていません | スタンプは含まれていません
GIFは含まれていません
ドキュメントは含まれていません | 連絡先カードを省略 | ライブロケーション共有
照片已忽略 | 视频已忽略 | 音频已忽略 | 贴图已省略 | GIF 动态图已被忽略 | 文档已省略 | 联系人卡片已忽略 | 共享实时位置
圖片已略去 | 圖像已省略 | 影片已略去 | 影片已省略 | 音訊已略去 | 音訊已省略 | 貼圖已略去 | 貼圖已忽略 | GIF 已略去
文件已略去 | 聯絡人卡片已略去 | 實時位置已分享
obraz pominięty | wideo pominięte | audio pominięte | pominięto naklejkę | Plik GIF pominięty | dokument pominięty
Pominięta wizytówka kontaktu | pliki pominięto | udostępniona transmisja położenia
이미지 생략됨 | 비디오 생략됨 | 오디오 생략됨 | 스티커 제외됨 | GIF 생략됨 | 문서 생략됨 | 연락처 카드 생략됨
зображення відсутнє | відео відсутнє | аудіо відсутнє | Наклейку не додано | документ пропущено
"""
# Of messages that the phone could not decrypt; another sentence may follow.
WAITING = """
Waiting for this message | Esperando este mensaje | Esperando el mensaje | Aguardando mensagem
Aguardando esta mensagem | A aguardar esta mensagem | Warten auf diese Nachricht | Warte auf diese Nachricht
En attente de ce message
En attente du message | In attesa del messaggio | In attesa di questo messaggio | Wachten op dit bericht
Ожидание данного сообщения | Ожидание этого сообщения | Ожидание сообщения | Bu mesaj bekleniyor | Mesaj bekleniyor
في انتظار هذه الرسالة | بانتظار هذه الرسالة | इस मैसेज का इंतज़ार है | Menunggu pesan ini | このメッセージを待っています
正在等待此消息 | 正在等待这条消息 | 正在等待此訊息 | 正在等候此訊息
Oczekiwanie na tę wiadomość | Oczekiwanie na wiadomość | 메시지 암호화 대기중입니다 | Очікування повідомлення
Čekání na tuto zprávu | Čaká sa na túto správu | Väntar på detta meddelande | Venter på denne besked
Venter på denne meldingen | Odotetaan tätä viestiä | În așteptarea mesajului | Várakozás az üzenetre
Αναμονή για αυτό το μήνυμα | ממתין להודעה זו | در انتظار برای این پیام | Đang chờ tin nhắn này
กำลังรอข้อความนี้ อาจใช้เวลาสักครู่ | Menunggu mesej ini | Esperant aquest missatge
اس پیغام کے منتظر ہیں | اس پیغام کا انتظار ہے | বার্তাটির জন্য অপেক্ষা করা হচ্ছে
Esperando mensaje. Esto puede tomar tiempo | A aguardar pela mensagem | इस संदेश के लिए प्रतीक्षा कर रहे है
في انتظار هذه الرسالة، قد يستغرق ذلك بعض الوقت | 正在等待信息，此可能需要一段时间 | 正在等待訊息，此可能需要一段時間
"""
FORWARDED = """
Forwarded | Forwarded many times | Reenviado | Reenviado muchas veces | Encaminhada | Encaminhada com frequência
Weitergeleitet | Häufig weitergeleitet | Transféré | Transféré plusieurs fois | Inoltrato | Inoltrato molte volte
Doorgestuurd | Vaak doorgestuurd | Переслано | Часто пересылаемое | İletildi | Diteruskan | Przekazano dalej | 転送済み
"""
# A deletion by the administrator of a group, who may be named.
_ADMIN = re.compile(
    r"(?:[^\s,]+ ){0,2}(?:\S{1,5}['’])?(?:admin|amministrat|beheerder|админ)\S*(?: .{1,80})?"
)  # after one of `DELETED`
_BY_ADMIN = re.compile(
    r"diese nachricht wurde von (?:einem )?admin(?: .{1,80})? gelöscht|un admin\.?,?(?: .{1,80})? eliminó este mensaje|"
    r"bu mesaj .{1,80} yönetici tarafından silindi|管理员.{0,80}已删除这条消息|管理員.{0,80}已刪除此訊息"
)
_AFTER_CALL = re.compile(r"[.。] ?.{1,40}|,? (?:\S{1,3} )?\d.{0,12}")  # what to do, or when it was
_LOCATION = re.compile(r"\S+(?: \S+)?:? https?://maps\.google\.com/\S*q=[-\d.,%]+")
_EDITED = re.compile(
    r"\s*\u200e?<[^<>]{0,60}(?:edited|editó|editad|bearbeitet|modifi|bewerkt|измен|отредакт|düzenlen|تعديل|संपादित|एडिट|"
    r"diedit|編集|编辑|編輯|edytowan|수정|змінен|upraven|redigera|redigere|muokat|módosít|επεξεργ|נערכ|chỉnh sửa)"
    r"[^<>]{0,30}>\s*$",
    re.IGNORECASE,
)
MAX_NOTICE = 200  # characters
_INVISIBLE = re.compile(f"[{MARKS}\u064b-\u0652]")  # Arabic's short vowels are optional
_POINTS = " \n\xa0\u202f.。।۔"
_POLL = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)?:")
_OPTION = re.compile(r"([^\W\d_]+): .*\(\D{0,12}\d+\D{0,12}\)")


def _plain(text: str) -> str:
    return _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).strip(_POINTS).casefold()


def _phrases(text: str) -> frozenset[str]:
    return frozenset(_plain(phrase) for line in text.splitlines() for phrase in line.split(" | ") if phrase)


_WHOLE = {"deleted": DELETED, "call": CALLS, "media": MEDIA}
_KINDS = {phrase: kind for kind, text in _WHOLE.items() for phrase in _phrases(text)}
_STARTS = {
    kind: re.compile(f"(?:{'|'.join(map(re.escape, sorted(_phrases(text), key=len, reverse=True)))})")
    for kind, text in (("deleted", DELETED), ("call", CALLS), ("waiting for the message", WAITING))
}
_FORWARDED = _phrases(FORWARDED)


def notice_kind(text: str) -> str | None:
    """The kind of what WhatsApp wrote in place of a message; None for a message."""
    if _is_poll(text):
        return "poll"
    if len(text) > MAX_NOTICE:
        return None
    plain = _plain(text)
    if kind := _KINDS.get(plain):
        return kind
    if _LOCATION.fullmatch(plain):
        return "media"
    if _BY_ADMIN.fullmatch(plain):
        return "deleted"
    for kind, pattern in _STARTS.items():
        if (match := pattern.match(plain)) and _may_follow(kind, plain[match.end() :]):
            return kind
    return None


def _may_follow(kind: str, rest: str) -> bool:
    if kind == "deleted":
        return rest.startswith(" ") and _ADMIN.fullmatch(rest[1:]) is not None
    if kind == "call":
        return _AFTER_CALL.fullmatch(rest) is not None
    return not rest or (rest[0] in ".。।۔…" and "\n" not in rest)


def _is_poll(text: str) -> bool:
    """Whether a text is `POLL:`, the question, and lines such as `OPTION: eight (2 votes)`, in any language."""
    first, *lines = (_INVISIBLE.sub("", line).strip() for line in text.splitlines() or [""])
    options = [match[1] for line in lines if (match := _OPTION.fullmatch(line))]
    return _POLL.fullmatch(first) is not None and len(options) > 1 and len(set(options)) == 1


def without_marks(text: str) -> str:
    """A message without the note that it was edited, and without what is in place of its picture or file."""
    text = _EDITED.sub("", text)
    before, mark, last = text.rpartition("\u200e")
    if mark and _KINDS.get(_plain(last)) == "media":
        return before
    if text.startswith("<") and _KINDS.get(_plain(text[1:].partition(">")[0])) == "media":  # in a browser's export
        return text.partition(">")[2]
    return text


def is_forwarded(text: str) -> bool:
    """Whether a text begins with a note such as `[Forwarded]`, as WhatsApp in a browser writes."""
    mark, closing, _ = text.removeprefix("[").partition("] ")
    return text.startswith("[") and bool(closing) and _plain(mark) in _FORWARDED
